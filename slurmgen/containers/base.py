"""What a container engine is: the words that run a job's command in an image, and that fetch an image."""

import re
from collections.abc import Callable
from typing import NamedTuple

from slurmgen.sites.model import Container, Vendor
from slurmgen.slurm.shell import is_full_path, on_each_node, variables_in, word

AMD_DEVICES = ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups")
"Podman's options for AMD GPUs."
DOCKER = "docker://"
_PATHS = ("/", "./", "../", "~/")
_FILES = (".sif", ".sqsh", ".squashfs", ".sqfs", ".tar")


class Call(NamedTuple):
    """A container of a job. All texts but the names of variables are shell words."""

    image: str
    binds: tuple[str, ...]
    "Each SOURCE[:TARGET[:OPTIONS]]."
    vendor: Vendor | None
    "None for a job without GPUs."
    options: tuple[str, ...]
    "Further options of the engine, from the profile."
    exported: tuple[str, ...] = ()
    "The names of all variables that the script exports."
    fetched: bool = False
    "The script has fetched the image from a registry."


def with_target(bind: str) -> str:
    """A bind with its target, which is the source where it names none."""
    return bind if ":" in bind else f"{bind}:{bind}"


def full_name(image: str) -> str:
    """The full name of a `docker://` image; other images stay.

    A first part without a dot or colon is a name in Docker Hub, not a registry, as in `docker://nersc/pytorch`.
    https://github.com/distribution/reference/blob/main/normalize.go

    >>> full_name("docker://pytorch:2.9"), full_name("docker://ghcr.io/a/b"), full_name("a/b")
    ('docker.io/library/pytorch:2.9', 'ghcr.io/a/b', 'a/b')
    """
    if not image.startswith(DOCKER):
        return image
    name = image.removeprefix(DOCKER)
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    is_registry = first == "localhost" or not {".", ":", "$"}.isdisjoint(first)
    return name if is_registry else f"docker.io/{name}"


def fault_of_file(image: str) -> tuple[str, str] | None:
    """Why an engine that knows images by name only cannot use one, and what to do; None if it can."""
    if not (image.startswith(_PATHS) or image.endswith(_FILES)):
        return None
    fact = "is a file, and the engine runs images by name"
    return fact, "Name one of a registry, such as nvcr.io/nvidia/pytorch:25.06-py3, or of the engine's store."


class Fetch(NamedTuple):
    """How the script gets an image from a registry before the step, once for all ranks."""

    is_remote: Callable[[str], bool]
    "Whether an image, as the engine writes it, comes from a registry."
    command: str
    """A shell command. `{image}` is the image as the engine writes it, `{name}` is the same without `docker://`,
    `{uri}` with it, and `{file}` is the file that the command writes, if it writes one."""
    suffix: str = ""
    "The suffix of that file. Without one, the engine has its own store of images."
    on_each_node: bool = False
    "Each node has a store of its own."
    needs_internet: bool = True
    "The node that runs the command must reach the registry."

    def file_name(self, image: str) -> str:
        """The name of the file that holds a fetched image."""
        return re.sub(r"[^\w.-]+", "+", image.removeprefix(DOCKER)) + self.suffix


class Engine(NamedTuple):
    """How the script calls an engine: before each task's command, or with options of srun."""

    command: Callable[[Call], tuple[str, ...]] = lambda _call: ()
    srun: Callable[[Call], tuple[str, ...]] = lambda _call: ()
    program: str = "srun"
    "The program that runs containers."
    srun_option: str = ""
    "The option that the engine adds to srun."
    env_prefix: str = ""
    "The prefix of host variables that overrule the image's."
    own_variables: tuple[str, ...] = ()
    "How the names of variables begin that are for the engine itself, and so get no prefix."
    image: Callable[[str], str] = str
    "The image as the engine writes it."
    image_fault: Callable[[str], tuple[str, str] | None] = lambda _image: None
    "Why the engine cannot use an image, and what to do."
    is_file: Callable[[str], bool] = bool
    "Whether an image, as the engine writes it, is a path on the cluster."
    lookup: str = ""
    "A shell command that finds `{image}` in the engine's store of images."
    fetch: Fetch | None = None
    takes_binds: bool = True
    not_in_binds: str = ""
    "Characters that the engine reads as separators in a bind, beside the colon."
    bind_options: bool = True
    "Whether a bind may end with :OPTIONS."
    binds_any_target: bool = True
    "Whether a folder can be bound at its own path, which the image may lack."
    binds_squashfs: bool = False
    "Whether a SquashFS file can be bound as a folder, with the option image-src=/."
    can_requeue: bool = True
    "Whether ranks can create REQUEUE_FILE at the path that the batch script checks."
    refused_variables: tuple[str, ...] = ()
    "Variables of the request that the engine ignores."


_NAMES = {",": "a comma", ";": "a semicolon", " ": "a blank", "\t": "a tab"}


def bind_fault(engine: Engine, bind: str) -> tuple[str, str] | None:
    """Why an engine cannot use a bind, and what to do; None if it can."""
    parts = bind.split(":")
    paths = parts[:2]
    if not is_full_path(paths[0]):
        return "is not a full path", "Write SOURCE[:TARGET] with a source that begins with /, ~/ or a $NAME."
    if len(parts) > 1 and not is_full_path(paths[1]):
        fact = f"has the target {paths[1]!r}, which is not a full path"
        return fact, "Write SOURCE:TARGET with a full path; no engine can bind a path with a colon."
    if len(parts) > 2 + engine.bind_options:
        form = "SOURCE:TARGET:OPTIONS" if engine.bind_options else "SOURCE:TARGET"
        return "has too many colons", f"The longest form is {form}; no engine can bind a path with a colon."
    for mark in engine.not_in_binds:
        if mark in "".join(paths):
            return f"has {_NAMES[mark]}, which separates binds", "Bind a folder above it, or a link to it."
    return None


IMAGE_FILE = "image"
"The variable of the script with the path of the fetched image."
_FETCHED = f'"${IMAGE_FILE}"'
_PART = f'"${IMAGE_FILE}.$SLURM_JOB_ID"'


def fetched(fetch: Fetch, image: str) -> str:
    """The fetched image as a shell word: a file, or its name in the engine's store."""
    return _FETCHED if fetch.suffix else word(image)


def fetch_command(engine: Engine, fetch: Fetch, image: str, file: str = "") -> str:
    """The shell command that fetches an image, unless it is in the store; `file` is a shell word."""
    name = image.removeprefix(DOCKER)
    command = f"{engine.lookup} || {fetch.command}" if engine.lookup else fetch.command
    return command.format(image=word(image), name=word(name), uri=word(DOCKER + name), file=file)


def lookup_command(engine: Engine, image: str) -> str:
    """The shell command that finds an image in a store that all nodes share; empty if there is none."""
    shared = not (engine.fetch and engine.fetch.on_each_node)
    return engine.lookup.format(image=word(image)) if shared else ""


def fetch_lines(engine: Engine, fetch: Fetch, image: str, folder: str, nodes: int) -> tuple[str, ...]:
    """The lines of the batch script that fetch an image, to a folder if the engine has no store."""
    if fetch.suffix:
        command = fetch_command(engine, fetch, image, _PART)
        return _to_file(f"{folder.rstrip('/')}/{fetch.file_name(image)}", command)
    command = fetch_command(engine, fetch, image)
    if nodes == 1 or not fetch.on_each_node:
        return ("# Fetch the image once, not by every rank.", command)
    return ("# Fetch the image once on each node, not by every rank.", *on_each_node(command, nodes))


def _to_file(path: str, command: str) -> tuple[str, ...]:
    return (
        "# Fetch the image once, not by every rank. Later jobs use the file too; remove it to fetch anew.",
        f"{IMAGE_FILE}={word(path)}",
        f'mkdir -p "${{{IMAGE_FILE}%/*}}"',
        f"[ -e {_FETCHED} ] || (",
        f"  trap 'rm -f {_PART}' EXIT",
        "  flock 9 || true  # some file systems have no locks",
        f"  [ -e {_FETCHED} ] || {{",
        f"    rm -f {_PART}",
        f"    {command} && mv {_PART} {_FETCHED}",
        "  }",
        f') 9>>"${IMAGE_FILE}.lock"',
    )


_ALWAYS_SET = {"HOME", "PWD", "USER"}


def bind_variables(container: Container) -> tuple[str, ...]:
    """The variables in the binds for several nodes. An unset one would bind the wrong folder."""
    found = variables_in(" ".join(container.multi_node_binds))
    return tuple(dict.fromkeys(name for name in found if name not in _ALWAYS_SET))
