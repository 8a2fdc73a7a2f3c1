"""Equivalent shell text for the few forms that the grammar parses wrongly.

tree-sitter-bash splits `$A/$B/x` into two words, and reads `$(((X)) && y)` as arithmetic. Both are rewritten
by inserting characters; a table of the insertions maps offsets back to the original text. A comment in
backquotes becomes blanks.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from slurmgen.lint.reader.budget import CHARACTERS, Budget
from slurmgen.lint.reader.source import Span

_NAME = r"(?:[A-Za-z_]\w*+|\d)"
_GLUED = re.compile(rf"(?<!\\)\$(?:{_NAME}|\{{{_NAME}\}})[\w/:,.@%+=~-]++(?=\${_NAME})")
"An expansion and a literal text, followed by an expansion without braces."
_VARIABLE = re.compile(rf"\$({_NAME})")
_DOUBLE = re.compile(r"\$\(\(\(")
_COMMENT = re.compile(r"(?<!\\)`#[^`\n]*`")
_LONGEST = 500
"Characters that are searched for the end of `$(((`."


class Insertion(NamedTuple):
    """A text that is inserted at an offset of the original."""

    at: int
    text: str


def rewrite(text: str, base: Callable[[int], Span], budget: Budget) -> tuple[str, Callable[[int], Span]]:
    """The equivalent text, and the function that maps its offsets to spans of the script."""
    text = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    insertions = sorted({*_braces(text), *_blanks(text, budget)})
    budget.spend(len(insertions))
    if not insertions:
        return text, base
    parts, at, starts, shifts = [], 0, [0], [0]
    for insertion in insertions:
        parts += [text[at : insertion.at], insertion.text]
        at = insertion.at
        shifts.append(shifts[-1] + len(insertion.text))
        starts.append(at + shifts[-1])
    return "".join([*parts, text[at:]]), lambda offset: base(
        offset - shifts[bisect_right(starts, offset) - 1]
    )


def _braces(text: str) -> Iterator[Insertion]:
    """Turn the second variable of `$A/$B/x` into `${B}`."""
    at = 0
    while found := _GLUED.search(text, at):
        name = _VARIABLE.match(text, found.end())
        if name is None:
            return
        yield Insertion(name.start(1), "{")
        yield Insertion(name.end(1), "}")
        at = found.end()


def _blanks(text: str, budget: Budget) -> Iterator[Insertion]:
    """Separate the parentheses of `$(((X)) && y)`, which is a command and not arithmetic."""
    for found in _DOUBLE.finditer(text):
        budget.spend(_LONGEST // CHARACTERS)
        if not _is_arithmetic(text[found.start() + 2 : found.start() + _LONGEST]):
            yield Insertion(found.start() + 2, " ")


def _is_arithmetic(text: str) -> bool:
    """Whether the parenthesis that the text starts with is closed together with the one before it."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[at + 1 : at + 2] == ")"
    return True
