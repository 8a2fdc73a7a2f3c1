"""What the ranks run: a Python script, a Python module, a shell script, or any other command."""

import re
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import option
from slurmgen.hints import Hint, offered
from slurmgen.launchers import Launcher
from slurmgen.plan.sweep import ARGUMENTS
from slurmgen.request import PROGRAMS, Request
from slurmgen.slurm.shell import quote, word

SHELL_SUFFIX = ".sh"
MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Program(Struct, frozen=True):
    """A program with its arguments, as shell words that follow the launcher's."""

    words: tuple[str, ...]
    name: str
    "The name of a job that has none."
    is_python: bool = True
    "Whether Python runs it."
    script: str | None = None
    "Its file, relative to the folder that the job starts in."


def find_program(request: Request, launcher: Launcher) -> Program:
    """The program of a request; without one, the launcher's bundled script.

    Raises:
        RequestError: there are several, a name is not valid, or the launcher runs Python only.
    """
    named = [key for key in PROGRAMS if getattr(request, key)]
    if len(named) > 1:
        raise contradiction(*map(option, named), then="Keep one of them.")
    program = _program(request, launcher)
    if not program.is_python and launcher.program is None:
        raise RequestError(
            f"{launcher.name} starts Python programs only, and {program.name} is not one",
            f"Name a {option('script')} or a {option('module')}, or another {option('framework')}.",
            "framework",
        )
    return program


def _program(request: Request, launcher: Launcher) -> Program:
    of_sweep = (f'"${{{ARGUMENTS}[@]}}"',) if request.sweep else ()
    arguments = (*map(word, request.script_args or ()), *of_sweep)
    if request.command:
        return _of_command(request.command, arguments)
    if request.module:
        return _of_module(request.module, arguments)
    script = request.script or launcher.bundled_script
    if script is None:
        raise RequestError(
            f"there is no bundled script for {launcher.name}",
            f"Add {option('script')}, {option('module')} or {option('command')}.",
        )
    return _of_script(script, arguments)


def _of_command(command: tuple[str, ...], arguments: tuple[str, ...]) -> Program:
    if command[0].startswith("-"):
        fact = f"{option('command')} {command[0]!r} begins with a dash"
        raise RequestError(fact, "Begin it with the name of a program.")
    name = PurePosixPath(command[0]).name
    return Program((*map(word, command), *arguments), name, is_python=False)


def _of_module(module: str, arguments: tuple[str, ...]) -> Program:
    if not MODULE_NAME.fullmatch(module):
        raise RequestError(
            f"{option('module')} {module!r} is not the name of a Python module",
            "Write it as in `python -m`.",
        )
    return Program(("-m", module, *arguments), module.rpartition(".")[2])


def _of_script(script: str, arguments: tuple[str, ...]) -> Program:
    if script.startswith("-"):
        then = Hint(f"Write ./{script}.", offered("script", f"./{script}"))
        raise RequestError(f"{option('script')} {script!r} begins with a dash", then)
    path = PurePosixPath(script)
    if path.suffix == SHELL_SUFFIX:
        return Program(("bash", quote(script), *arguments), path.stem, is_python=False, script=script)
    return Program((quote(script), *arguments), path.stem, script=script)
