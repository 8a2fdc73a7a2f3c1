"""What the argument of a command names: a batch script, or a program that becomes a job."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from slurmgen.adopt.program import ADAPTERS, from_launch
from slurmgen.errors import RequestError
from slurmgen.files import read_bytes
from slurmgen.lint.reader import read
from slurmgen.program.files import BATCH_SUFFIXES, SHELL_SUFFIXES, path_in_project
from slurmgen.request.model import Request, merge
from slurmgen.toml import unreadable

Kind = Literal["batch", "python", "shell"]
_DIRECTIVE = re.compile(rb"^#SBATCH\b", re.MULTILINE)
_SHELL = re.compile(rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?(?:ba|k|z|da)?sh(?:[ \t\r\n]|$)")
_LONGEST = 200
"Bytes of a first line; the kernel reads 255."
_PYTHON = re.compile(rb"#![^\n]*\bpython")


def kind_of(path: Path) -> Kind | None:
    """What a file is for Slurm; None for something else.

    A shell program without #SBATCH lines can be both a batch script and a program: it is `shell`.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise unreadable(path, error) from error
    has_directive = _DIRECTIVE.search(data) is not None
    if path.suffix == ".py" or _PYTHON.match(data):
        # sbatch runs a Python file with `#!` and directives; without `#!`, they are in a text.
        return "batch" if has_directive and data.startswith(b"#!") else "python"
    if has_directive:
        return "batch"
    is_shell = _SHELL.match(data[:_LONGEST]) is not None
    if is_shell and path.suffix in BATCH_SUFFIXES:
        return "batch"
    no_interpreter = not data.startswith(b"#!") and path.suffix in SHELL_SUFFIXES
    return "shell" if is_shell or no_interpreter else None


def program_request(path: Path, kind: Kind, project_dir: Path) -> Request:
    """The request for a program of the project.

    Raises:
        RequestError: it is not in the project.
    """
    file = path_in_project(path, project_dir)
    if file is None:
        raise RequestError(
            f"{path} is not in the project {project_dir}, whose files the job gets",
            "Go to the folder of its project, and submit it from there.",
        )
    if kind == "shell" and path.suffix != ".sh":
        return Request(command=("bash", file))
    if kind == "python" and path.suffix != ".py":
        return Request(command=("python", file))
    return Request(script=file)


def as_command(request: Request) -> tuple[Request, str]:
    """The request whose command is the arguments of this one, and a notice of words that it leaves out.

    The notice is empty if it leaves out none.
    """
    command, replaced = _command_request(request.script_args or ())
    notice = f"slurmgen sets these options itself, or leaves them out: {', '.join(replaced)}"
    return merge(command, structs.replace(request, script_args=None)), notice if replaced else ""


def _command_request(words: Sequence[str]) -> tuple[Request, tuple[str, ...]]:
    """The request for a command, and what of its words slurmgen replaces by its own or cannot express.

    `python FILE` and `python -m MODULE` are what they run; torchrun and the like are a framework.
    """
    script = read("#!/bin/bash\n" + " ".join(map(_quoted, words)) + "\n")
    launch = next(iter(script.launches), None)
    found = from_launch(script, launch, ()) if launch else None
    if launch is None or found is None or "command" in found.fields:
        return Request(**_shell_words(words)), ()
    # A plain `python` has the framework of the program, which the batch script of an adopted job may tell.
    fields = found.fields if launch.kind in ADAPTERS else {**found.fields, "framework": None}
    return Request(**fields), (*found.replaced, *found.lost)


_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def _quoted(word: str) -> str:
    """A word as the shell reads it; in double quotes, it expands variables."""
    if _PLAIN.fullmatch(word):
        return word
    return '"' + re.sub(r'([\\"`])', r"\\\1", word) + '"'


def _shell_words(words: Sequence[str]) -> dict[str, Any]:
    shell, *rest = words[1:] if words[0] in ("bash", "sh") and len(words) > 1 else words
    if shell.endswith((".sh", ".py")) and not shell.startswith("-"):
        return {"script": shell, "script_args": tuple(rest) or None}
    return {"command": tuple(words)}
