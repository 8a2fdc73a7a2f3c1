"""Batch scripts inside a script: here-documents that become jobs, and the commands of `sbatch --wrap`."""

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from slurmgen.lint.reader.commands import Command, Document, Part, Shell
from slurmgen.lint.reader.header import read_header
from slurmgen.lint.reader.source import OUTER, UNKNOWN, Budget, Source, Span
from slurmgen.slurm import getopt

_BATCH = re.compile(r"#!|#SBATCH\b")
_MOST = 20
"Scripts that are read in one script."


class Embedded(NamedTuple):
    """A batch script inside another one."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The script."""
        return "".join(part.text for part in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether the outer script contains it character by character."""
        return len(self.parts) == 1 and self.parts[0].is_exact

    def place(self, span: Span) -> Span:
        """Where the outer script has a span of the text."""
        starts = [0, *accumulate(len(part.text) for part in self.parts)]

        def of(offset: int) -> Span:
            index = min(bisect_right(starts, offset), len(self.parts)) - 1
            part = self.parts[index]
            at = part.span.start + offset - starts[index]
            return Span(at, at + 1) if part.is_exact else part.span

        return Span(of(span.start).start, of(max(span.start, span.end - 1)).end)


def embedded(shell: Shell) -> Iterator[Embedded]:
    """The batch scripts in a script, up to a limit."""
    found = [script for document in shell.documents for script in _of_document(document)]
    found += [script for command in shell.commands for script in _of_wrap(command)]
    yield from found[:_MOST]


def _of_document(document: Document) -> Iterator[Embedded]:
    """The text of a here-document, if sbatch or a file for sbatch gets it."""
    text = Embedded(document.parts).text
    is_for_sbatch = document.command is not None and document.command.name == "sbatch"
    if ("#SBATCH" not in text and not is_for_sbatch) or not _BATCH.match(text):
        return
    directives = _directives(document.command) if document.command and is_for_sbatch else ()
    if directives:
        yield Embedded(
            tuple(_with_directives(document.parts, read_header(Source(text), Budget()).end, directives))
        )
    else:
        yield Embedded(document.parts)


def _with_directives(parts: tuple[Part, ...], end: int, directives: tuple[Part, ...]) -> Iterator[Part]:
    """The options of the command line come last: they override the directives of the text."""
    for part in parts:
        size = len(part.text)
        if 0 <= end < size and part.is_exact:
            middle = part.span.start + end
            yield Part(part.text[:end], Span(part.span.start, middle), is_exact=True)
            yield from directives
            yield Part(part.text[end:], Span(middle, part.span.end), is_exact=True)
        else:
            yield part
        end -= size


def _of_wrap(command: Command) -> Iterator[Embedded]:
    """The command of `sbatch --wrap`, in the script that sbatch makes of it."""
    if command.name != "sbatch":
        return
    options, _ = getopt.parse(command.texts[1:], getopt.SBATCH)
    wrapped = next((option for option in options if option.name == "wrap" and option.value), None)
    if wrapped:
        text, span = _known(wrapped.value or ""), command.words[wrapped.value_at + 1].span
        first = Part("#!/bin/sh\n", command.words[0].span)
        yield Embedded((first, *_directives(command), Part(f"{text}\n", span)))


def _directives(command: Command) -> tuple[Part, ...]:
    """The options on the command line of sbatch as directives."""
    options, _ = getopt.parse(command.texts[1:], getopt.SBATCH)
    return tuple(
        Part(f"#SBATCH {_written(option)}\n", command.words[option.at + 1].span)
        for option in options
        if option.name != "wrap" and UNKNOWN not in option.written and "\n" not in (option.value or "")
    )


def _written(option: getopt.Option) -> str:
    if option.value is None:
        return option.written
    joint = "=" if option.written.startswith("--") else " "
    return option.written + joint + shlex.quote(_known(option.value))


def _known(text: str) -> str:
    return text.replace(UNKNOWN, OUTER)
