"""A project's own templates: untrusted programs, which run in a process of their own with limits."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from slurmgen import sandbox
from slurmgen.errors import ConfigError
from slurmgen.files import MAX_TEXT, read_inside
from slurmgen.paths import bundled
from slurmgen.plan import Plan
from slurmgen.script.templates import MAIN_TEMPLATE, environment_of
from slurmgen.script.values import values_of

_SECONDS, _SECONDS_PER_SCRIPT = 0.7, 0.002
"CPU time for a project's templates. The first script takes 0.1 s, each further script 0.2 ms."
_TEMPLATE_HINT = "Correct the template; docs/templates.md lists the values that it may use."


def render_own(plans: Sequence[Plan], folder: Path) -> list[str]:
    """The batch script of each plan, by the templates of a folder.

    Raises:
        ConfigError: a template of that folder fails.
    """
    try:
        seconds = _SECONDS + _SECONDS_PER_SCRIPT * len(plans)
        reply = sandbox.call(_rendered, list(plans), folder, cpu_seconds=seconds)
    except sandbox.Stopped as error:
        raise ConfigError(f"{_last_template(error.log, folder)}: it {error}", _TEMPLATE_HINT) from None
    if isinstance(reply, str):
        raise ConfigError(reply, _TEMPLATE_HINT)
    return list(reply)


class _Unreadable(Exception):
    """A template cannot be read, or is not allowed."""


def _rendered(plans: Sequence[Plan], folder: Path) -> list[str] | str:
    """Runs in the sandbox: the scripts from a project's templates, or the error of one."""
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    read: list[Path] = []
    loader = ChoiceLoader([FunctionLoader(_source_in(folder, read)), FileSystemLoader(bundled("templates"))])
    try:
        template = environment_of(ImmutableSandboxedEnvironment, loader).get_template(MAIN_TEMPLATE)
        texts = [template.render(values_of(plan)) for plan in plans]
    except _Unreadable as error:
        return str(error)
    except MemoryError as error:
        return f"{_place(error, folder, read)}: it needs more than {sandbox.MEMORY // 10**6} MB of memory"
    except Exception as error:  # a template may raise anything
        return f"{_place(error, folder, read)}: {error}"
    fault = next(filter(None, map(_fault, texts)), None)
    return f"{read[0] if len(read) == 1 else folder}: {fault}" if fault else texts


def _source_in(folder: Path, read: list[Path]) -> Callable[[str], tuple[str, str, None] | None]:
    """A loader of the folder's templates by name; None where there is no such file."""

    def source(name: str) -> tuple[str, str, None] | None:
        path = folder / name
        if any(part.startswith((".", "/")) for part in PurePosixPath(name).parts):
            raise ValueError(f"{name!r} is not the name of a template")
        if not os.path.lexists(path):
            return None
        read.append(path)
        sys.stderr.write(_escaped(f'File "{path}", line 1\n'))  # for `_last_template`
        try:
            return read_inside(folder, name).decode(), str(path), None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise _Unreadable(f"{path} cannot be read: {reason}") from None

    return source


def _fault(text: str) -> str | None:
    """Why a text is not a valid script; None if it is valid."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        return str(error)
    return f"the script has more than {MAX_TEXT:,} bytes" if size > MAX_TEXT else None


def _place(error: BaseException, folder: Path, read: Sequence[Path]) -> str:
    """The project's template that an error comes from, with the line if it is known."""
    from traceback import extract_tb  # only an error needs it

    if (path := getattr(error, "filename", None)) and hasattr(error, "lineno"):
        return f"{path}:{error.lineno}"
    frames = [f"{frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)]
    own = [frame for frame in frames if frame.startswith(f"{folder}/")]
    return str([folder, *read, *own][-1])


def _last_template(log: str, folder: Path) -> Path:
    """The innermost template on the stack that faulthandler wrote; else the last one read."""
    read, _, stack = log.partition("(most recent call first)")
    own = rf'File "{re.escape(_escaped(str(folder)))}/(.*)", line'
    names = re.findall(own, stack)[:1] or re.findall(own, read)[-1:]
    return folder.joinpath(*names)


def _escaped(text: str) -> str:
    """The text as faulthandler writes it."""
    return text.encode("ascii", "backslashreplace").decode()
