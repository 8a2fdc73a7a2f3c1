"""The text of a script and its parts, within limits."""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

UNKNOWN = "\x01"
"Replaces the parts of a word that the text does not determine."
OUTER = "$SLURM_OUTER"
"Instead of what the outer script expands to an unknown value: an unknown value of the inner one."
_FOREIGN = re.compile(r"[^\t\n\r\x20-\x7e]")
BYTE_ORDER_MARK = "\ufeff"
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff", "#\0", "\0#")
"How UTF-16 begins when it is decoded as UTF-8, with its byte order mark and without."


class Span(NamedTuple):
    """A range of the text, in characters from its start."""

    start: int
    end: int


class Position(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Source:
    """The text of a script; `plain` is the same in ASCII, so that byte and character offsets agree."""

    def __init__(self, text: str, shown_line: Callable[[int], int] | None = None) -> None:
        self.text = text
        self.shown_line = shown_line or (lambda offset: self.position(offset).line)
        "The line of a character in the file that the user sees, which may contain the script."
        self.is_utf16 = text.startswith(_UTF_16)
        "Of such a text nothing is read: `plain` is empty."
        self.plain = "" if self.is_utf16 else _FOREIGN.sub("_", re.sub(f"^{BYTE_ORDER_MARK}", " ", text))
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(self, offset: int) -> Position:
        """Line and column of a character."""
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """One line, counted from 1, without its end."""
        return self.text[slice(*self._line(number))].removesuffix("\n").removesuffix("\r")

    def line_span(self, offset: int) -> Span:
        """The line that contains a character, with its newline."""
        return self._line(self.position(offset).line)

    def _line(self, number: int) -> Span:
        """A line with its newline."""
        is_last = number == len(self.line_starts)
        return Span(self.line_starts[number - 1], len(self.text) if is_last else self.line_starts[number])

    def quote(self, span: Span) -> str:
        """The text of a span."""
        return self.text[span.start : span.end]


STEPS = 800_000
"Enough for about 20,000 plain commands."
CHARACTERS = 8
"Characters that are copied, compared or searched in one step."


class TooLarge(Exception):
    """The script exceeds its budget."""


class Budget:
    """The remaining budget of one script."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    @property
    def left(self) -> int:
        """The remaining steps; negative if the budget is exhausted."""
        return self._left

    @property
    def exhausted(self) -> bool:
        """Whether a part of the script was skipped."""
        return self._left < 0

    def spend(self, steps: int) -> None:
        """Charge some work before it is done.

        Raises:
            TooLarge: the budget is exhausted.
        """
        self._left -= steps
        if self._left < 0:
            raise TooLarge

    def exhaust(self) -> None:
        """Record that a part of the script cannot be read."""
        self._left = -1
