"""The reader: parses a batch script into its requests and its launches."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from slurmgen.lint.reader.commands import Assignment, Command, Shell
from slurmgen.lint.reader.header import Header, other_scheduler, read_header
from slurmgen.lint.reader.launch import Launch
from slurmgen.lint.reader.launches import read_launches
from slurmgen.lint.reader.parse import fault_of
from slurmgen.lint.reader.shape import Shape, header_shape, slurm_variables, step_shape
from slurmgen.lint.reader.shell import read_shell
from slurmgen.lint.reader.source import BYTE_ORDER_MARK, Budget, Source, Span, TooLarge
from slurmgen.lint.reader.words import Value

_SHELL = re.compile(r"#!\s*(\S*/)?(env\s+(-S\s+)?)?(ba|da|k|z)?sh\b")

_IS_BASH = re.compile(r"(?!#!)|#!\s*(\S*/)?(env\s+(-S\s+)?)?(ba)?sh\b")
_PLACEHOLDER = re.compile(r"(?m)^[^#\n]*<[\w -]+>[ \t]*$")
"Two redirections for the grammar, although the second lacks its file."

_COMPARED = 3
"Pairs of launches that all rules compare in one step of the budget."


class Script(NamedTuple):
    """A parsed batch script."""

    source: Source
    path: Path | None
    "Its path, if it is a file."
    header: Header
    job: Shape
    shell: Shell
    "Empty if the script is too large to read."
    launches: tuple[Launch, ...]
    "Those of Python and of launchers."
    started: tuple[Launch, ...]
    "These, and the other programs that srun, mpirun or a container starts."
    budget: Budget
    "The remaining budget."
    other_scheduler: tuple[str, Span] | None = None
    "The scheduler that the script is for, if that is not Slurm, and its first directive."

    @property
    def commands(self) -> tuple[Command, ...]:
        """Its commands, in order."""
        return self.shell.commands

    @property
    def first_line(self) -> str:
        """The line that names the interpreter."""
        return self.source.line(1)

    def step(self, launch: Launch) -> Shape:
        """How many nodes, tasks, CPUs and GPUs a launch has."""
        return step_shape(self.job, self.header, launch)

    def assigned(self, *names: str) -> Iterator[Assignment]:
        """Where the script sets these variables."""
        return (found for found in self.shell.assignments if found.name in names)

    def sets(self, name: str) -> bool:
        """Whether the script sets a variable anywhere, for itself or for a command."""
        return any(self.assigned(name)) or any(name in launch.env for launch in self.launches)


def read(text: str, path: Path | None = None, shown_line: Callable[[int], int] | None = None) -> Script:
    """Read a batch script; `shown_line` is the line of a character if the script is a part of a file."""
    source, budget = Source(text, shown_line), Budget()
    header = read_header(source, budget)
    job = header_shape(header)
    shell, started = _read_commands(source, slurm_variables(header, job), len(header.directives), budget)
    launches = tuple(launch for launch in started if launch.kind != "program")
    other = other_scheduler(source.plain)
    return Script(source, path, header, job, shell, launches, started, budget, other)


def _read_commands(
    source: Source, known: dict[str, Value], directives: int, budget: Budget
) -> tuple[Shell, tuple[Launch, ...]]:
    """All commands and launches of a shell script, or none: some of them would mislead the rules."""
    text = source.text.removeprefix(BYTE_ORDER_MARK)
    is_shell = not text.startswith("#!") or bool(_SHELL.match(text))
    try:
        shell = read_shell(
            source.plain if is_shell else "", known, budget, settings=_shebang_settings(source.line(1))
        )
        is_doubtful = shell.has_error or _PLACEHOLDER.search(source.plain)
        if is_doubtful and _IS_BASH.match(text) and (fault := fault_of(source.plain.replace("\r", ""))):
            return Shell((), (), (), sourced=True, fault=fault), ()
        launches = tuple(read_launches(shell.commands, known, budget))
        # Rules compare each launch with all others.
        budget.spend(len(launches) * (len(shell.commands) + len(shell.assignments) + directives) // _COMPARED)
        return shell, launches
    except (TooLarge, RecursionError):
        budget.exhaust()
        return Shell((), (), (), sourced=True), ()


def _shebang_settings(line: str) -> tuple[str, ...]:
    """The settings that the first line enables, as `#!/bin/bash -eu` does."""
    names = {"e": "errexit", "u": "nounset"}
    words = line.split()[1:] if line.startswith("#!") else []
    return tuple(names[c] for word in words if re.fullmatch(r"-[a-z]+", word) for c in word if c in names)


__all__ = ["Assignment", "Command", "Launch", "Script", "Shape", "Source", "Span", "read"]
