"""Logs on a terminal: bytes that are not ours, without the controls that could steer the terminal."""

import codecs
import os
import re
import sys
from collections.abc import Callable
from typing import Protocol

import click

from slurmgen.text import without_commands

# Kept: backspace, tab, line feed, carriage return, SGR (colours) and EL (erase the line).
# Bytes 80 to 9F that are not part of UTF-8 are decoded to DC80 to DC9F. Changes of the writing direction can
# make a line look like another one (https://trojansource.codes).
_DIRECTIONS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS = re.compile(
    f"\x1b\\[[0-9;:]{{0,64}}[mK]|([\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f{_DIRECTIONS}])"
)
_LONGEST = 65536
"Characters of a line that are held back until its end is known."
_NO_LABELS = (
    "no line is labelled with rank {}; with --label-ranks, or label_ranks in slurmgen.toml, each line of a "
    "new job begins with its rank"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")


class Write(Protocol):
    """Shows a log part by part."""

    def __call__(self, part: bytes, /) -> None:
        """Show the next part."""

    def finish(self) -> None:
        """Show what was held back."""


class LogOutput:
    """Writes a log part by part: as it is, except to what it could steer, a terminal or a CI service."""

    def __init__(self, *, err: bool = False) -> None:
        stream = sys.stderr if err else sys.stdout
        is_terminal = stream is not None and stream.isatty()
        self._escape = Harmless() if is_terminal else WithoutCommands() if _runs_commands() else None
        self._err = err

    def __call__(self, part: bytes) -> None:
        """Write the next part."""
        click.echo(self._escape(part) if self._escape else part, nl=False, err=self._err)

    def finish(self) -> None:
        """Write what was held back."""
        if self._escape:
            click.echo(self._escape(b"", final=True), nl=False, err=self._err)


class Harmless:
    """Escapes the controls in a log part by part; a sequence that is cut is held back until the next part."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._held = ""

    def __call__(self, part: bytes, *, final: bool = False) -> bytes:
        """The part, after what was held back of the one before."""
        text = self._held + self._decode(part, final)
        cut = _UNFINISHED.search(text) if not final else None
        end = cut.start() if cut else len(text)
        self._held = text[end:]
        return _CONTROLS.sub(_escaped, text[:end]).encode(errors="surrogateescape")


class WithoutCommands:
    """Escapes the commands of GitHub Actions and Azure Pipelines in a log part by part, line by line."""

    def __init__(self) -> None:
        self._held = ""

    def __call__(self, part: bytes, *, final: bool = False) -> bytes:
        """The lines that are complete, after what was held back of the part before."""
        text = self._held + part.decode("latin-1")
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        if final or len(text) - end > _LONGEST:
            end = len(text)
        self._held = text[end:]
        return without_commands(text[:end]).encode("latin-1")


def _runs_commands() -> bool:
    """Whether what is printed goes to a service that executes commands in it."""
    return bool(os.environ.get("GITHUB_ACTIONS") or os.environ.get("TF_BUILD"))


def harmless(log: bytes) -> bytes:
    r"""A log for a terminal: colours and what progress bars need stay, other controls are escaped.

    >>> harmless(b"\x1b[31mred\x1b[0m\r50 %\x1b[K\x1b[2J\x07\n")
    b'\x1b[31mred\x1b[0m\r50 %\x1b[K\\x1b[2J\\x07\n'
    """
    return Harmless()(log, final=True)


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    if "\u0600" < match[1] < "\ud800":
        return f"\\u{ord(match[1]):04x}"
    return "".join(f"\\x{byte:02x}" for byte in match[1].encode(errors="surrogateescape"))


def writer(rank: int | None, write: Write) -> tuple[Callable[[bytes], None], Callable[[], None]]:
    """Two functions: one shows the next part of a log, the other is called at its end.

    Args:
        rank: show only the lines that are labelled with this rank; None for all lines.
        write: shows what is left of the log.
    """
    if rank is None:
        return write, write.finish
    from slurmgen.jobs.logs import OfRank

    lines = OfRank(write, rank)

    def finish() -> None:
        lines.finish()
        write.finish()
        if not lines.found:
            click.echo(_NO_LABELS.format(rank), err=True)

    return lines, finish
