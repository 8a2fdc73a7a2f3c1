"""Fetch an image from a registry before the step, once: every rank would do it otherwise."""

import re

from slurmgen.containers.base import DOCKER, Engine
from slurmgen.slurm.node_step import on_each_node
from slurmgen.slurm.shell import word

IMAGE_FILE = "image"
"The variable of the script with the path of the fetched image."
_FETCHED = f'"${IMAGE_FILE}"'
_PART = f'"${IMAGE_FILE}.$SLURM_JOB_ID"'


def is_remote(engine: Engine, image: str) -> bool:
    """Whether the script must fetch an image, as the engine writes it."""
    return engine.fetch is not None and engine.fetch.is_remote(image)


def fetched(engine: Engine, image: str) -> str:
    """The fetched image as a shell word: a file, or its name in the engine's store."""
    return _FETCHED if engine.fetch and engine.fetch.suffix else word(image)


def fetch_command(engine: Engine, image: str, file: str = "") -> str:
    """The shell command that fetches an image, unless it is in the store; `file` is a shell word."""
    assert engine.fetch  # noqa: S101 (is_remote)
    name = image.removeprefix(DOCKER)
    lookup = f"{engine.lookup} || " if engine.lookup else ""
    command = lookup + engine.fetch.command
    return command.format(image=word(image), name=word(name), uri=word(DOCKER + name), file=file)


def lookup_command(engine: Engine, image: str) -> str:
    """The shell command that finds an image in a store that all nodes share; empty if there is none."""
    shared = not (engine.fetch and engine.fetch.on_each_node)
    return engine.lookup.format(image=word(image)) if shared else ""


def file_name(engine: Engine, image: str) -> str:
    """The name of the file that holds a fetched image."""
    assert engine.fetch  # noqa: S101 (is_remote)
    return re.sub(r"[^\w.-]+", "+", image.removeprefix(DOCKER)) + engine.fetch.suffix


def fetch_lines(engine: Engine, image: str, folder: str, nodes: int) -> tuple[str, ...]:
    """The lines of the batch script that fetch an image.

    Args:
        folder: the folder of fetched images, as a value of the profile.
    """
    assert engine.fetch  # noqa: S101 (is_remote)
    if engine.fetch.suffix:
        return _to_file(engine, image, f"{folder.rstrip('/')}/{file_name(engine, image)}")
    command = fetch_command(engine, image)
    if nodes == 1 or not engine.fetch.on_each_node:
        return ("# Fetch the image once, not by every rank.", command)
    step = on_each_node(command, nodes)
    return ("# Fetch the image once on each node, not by every rank.", *step)


def _to_file(engine: Engine, image: str, path: str) -> tuple[str, ...]:
    return (
        "# Fetch the image once, not by every rank. Later jobs use the file too; remove it to fetch anew.",
        f"{IMAGE_FILE}={word(path)}",
        f'mkdir -p "${{{IMAGE_FILE}%/*}}"',
        f"[ -e {_FETCHED} ] || (",
        f"  trap 'rm -f {_PART}' EXIT",
        "  flock 9 || true  # some file systems have no locks",
        f"  [ -e {_FETCHED} ] || {{",
        f"    rm -f {_PART}",
        f"    {fetch_command(engine, image, _PART)} && mv {_PART} {_FETCHED}",
        "  }",
        f') 9>>"${IMAGE_FILE}.lock"',
    )
