"""The reader: the text of a batch script into what it asks for and what it launches."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from slurmgen.lint.reader.commands import Assignment, Command, Shell
from slurmgen.lint.reader.header import Header, read_header
from slurmgen.lint.reader.launches import Launch, read_launches
from slurmgen.lint.reader.shape import Shape, header_shape, slurm_variables, step_shape
from slurmgen.lint.reader.shell import read_shell
from slurmgen.lint.reader.source import Source, Span

_SHELL = re.compile(r"#!\s*(\S*/)?(env\s+(-S\s+)?)?(ba|da|k|z)?sh\b")


class Script(NamedTuple):
    """One batch script, read."""

    source: Source
    path: Path | None
    "Where it lies, if it is a file."
    header: Header
    job: Shape
    shell: Shell
    launches: tuple[Launch, ...]

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


def read(text: str, path: Path | None = None) -> Script:
    """Read a batch script."""
    source = Source(text)
    header = read_header(source)
    job = header_shape(header)
    known = slurm_variables(header, job)
    is_shell = not text.startswith("#!") or bool(_SHELL.match(text))
    shell = read_shell(source.plain if is_shell else "", known, settings=_shebang_settings(source.line(1)))
    return Script(source, path, header, job, shell, tuple(read_launches(shell.commands, known)))


def _shebang_settings(line: str) -> tuple[str, ...]:
    """The settings that the first line switches on, as `#!/bin/bash -eu` does."""
    names = {"e": "errexit", "u": "nounset"}
    words = line.split()[1:] if line.startswith("#!") else []
    return tuple(names[c] for word in words if re.fullmatch(r"-[a-z]+", word) for c in word if c in names)


__all__ = ["Assignment", "Command", "Launch", "Script", "Shape", "Source", "Span", "read"]
