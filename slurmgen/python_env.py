"""The source of a job's Python: the lines that put it first on PATH.

They run once, in the batch script: with `uv run` in the step, many tasks would race to create one
environment.
"""

from collections.abc import Callable
from typing import NamedTuple

from slurmgen.errors import RequestError, did_you_mean, option
from slurmgen.slurm.shell import in_one_word, is_full_path, word


def _uv(folder: str) -> tuple[str, ...]:
    here, project = (f"{word(folder)}/", f" --project {word(folder)}") if folder else ("", "")
    # .venv may be a link to a shared environment, whose programs must not name the folder of one run.
    return (
        f'venv="$(readlink -f {here}.venv)"',
        f'UV_PROJECT_ENVIRONMENT="$venv" flock {here}.venv.lock uv sync{project}',
        'export PATH="$venv/bin:$PATH"',
    )


def _venv(folder: str) -> tuple[str, ...]:
    place = word(folder)
    check = f"[ -x {place}/bin/python ] || {{ echo 'there is no Python in' {place} >&2; exit 1; }}"
    return (check, _on_path(folder))


def _on_path(folder: str) -> str:
    from_here = "" if is_full_path(folder) else '"$PWD"/'
    programs = f"{from_here}{word(folder)}/bin"
    return "export PATH=" + in_one_word((programs, '"$PATH"'), ":")


def _conda(name: str) -> tuple[str, ...]:
    return ('hook="$(conda shell.bash hook)"', 'eval "$hook"', f"conda activate {word(name)}")


def _pixi(where: str) -> tuple[str, ...]:
    """https://pixi.prefix.dev/latest/reference/cli/pixi/shell-hook/"""
    folder, _, environment = where.partition(":")
    named = f" --environment {word(environment)}" if environment else ""
    here = f"{word(folder)}/" if folder else ""
    hook = f"pixi shell-hook --shell bash --frozen --manifest-path {word(folder or '.')}{named}"
    return (f'hook="$(flock {here}.pixi.flock {hook})"', 'eval "$hook"')


def _squashfs(_where: str) -> tuple[str, ...]:
    raise RequestError(
        "python_env squashfs has no container to be mounted in",
        f"Add {option('container', 'IMAGE')} with apptainer or singularity. Otherwise each node would need a "
        "mount of squashfuse that lives as long as the step, which slurmgen does not make: use venv:FOLDER.",
        "python_env",
    )


def _none(_where: str) -> tuple[str, ...]:
    return ()


_KINDS: dict[str, tuple[Callable[[str], tuple[str, ...]], str]] = {
    "none": (_none, "never"),
    "uv": (_uv, "may"),
    "venv": (_venv, "must"),
    "conda": (_conda, "must"),
    "pixi": (_pixi, "may"),
    "squashfs": (_squashfs, "must"),
}


def needed_files(python_env: str) -> tuple[str, ...]:
    """The project files that the environment needs on the remote host."""
    kind, _, where = python_env.partition(":")
    folder = where.partition(":")[0]
    if is_full_path(folder):
        return ()
    needed = {"uv": "pyproject.toml", "venv": "bin/python", "pixi": "pixi.lock"}
    return (f"{folder or '.'}/{needed[kind]}",) if kind in needed else ()


_ONCE = "One process makes the environment, under a lock; the ranks only use it."
COMMENTS = {"uv": _ONCE, "pixi": _ONCE}

IN_CONTAINER = ("none", "venv", "squashfs")
"The kinds that a job in a container may have."
MOUNT_POINT = "/user-software"
"The folder of a `squashfs:FILE` in the container, as in LUMI's documentation."


class InContainer(NamedTuple):
    """How a container gets the environment."""

    line: str = ""
    "The shell line by which a task puts it first on the PATH of its container."
    bind: str = ""
    "A bind of a SquashFS file."


def in_container(python_env: str) -> InContainer:
    """How a container gets one of `IN_CONTAINER`.

    Raises:
        RequestError: it names no place, or one that cannot be mounted.
    """
    kind, _, where = python_env.partition(":")
    if kind != "squashfs":
        setup_lines(python_env)
        return InContainer(_on_path(where)) if kind == "venv" else InContainer()
    file, _, folder = where.partition(":")
    folder = folder or MOUNT_POINT
    if not is_full_path(file) or not folder.startswith("/") or ":" in folder:
        raise RequestError(
            f"python_env {python_env!r} names no SquashFS file and folder by full paths",
            "Write squashfs:FILE or squashfs:FILE:FOLDER; FOLDER is the environment in the container.",
            "python_env",
        )
    return InContainer(_on_path(folder), f"{file}:{folder}:image-src=/")


def setup_lines(python_env: str) -> tuple[str, ...]:
    """Shell lines for `none`, `uv[:FOLDER]`, `venv:FOLDER`, `conda:NAME` or `pixi[:FOLDER[:NAME]]`.

    `squashfs:FILE[:FOLDER]` is for containers only; see `in_container`.

    Raises:
        RequestError: it is none of these.
    """
    kind, _, where = python_env.partition(":")
    if kind not in _KINDS:
        raise RequestError(f"unknown python_env {python_env!r}", did_you_mean(kind, _KINDS), "python_env")
    lines, takes_place = _KINDS[kind]
    if takes_place == "must" and not where:
        raise RequestError(
            f"python_env {kind!r} names no place", f"Write {kind}:FOLDER_OR_NAME.", "python_env"
        )
    if takes_place == "never" and where:
        raise RequestError(f"python_env {python_env!r} names a place", f"Write {kind} alone.", "python_env")
    return lines(where)
