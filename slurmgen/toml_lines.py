"""Which line of a TOML file defines a key; tomllib does not report that."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

MAX_PARTS = 16
"Parts of a dotted key. tomllib's time grows with their square, and with them times the lines of a table."

# Possessive quantifiers, and strings that need no end, keep the time linear in the size of any text.
_KEY = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_FURTHER = rf"(?:[ \t]*+\.[ \t]*+{_KEY})"
_TOO_DEEP = re.compile(rf"(?:^|[\[{{,])[ \t]*+{_KEY}{_FURTHER}{{{MAX_PARTS}}}", re.MULTILINE)
# Compiled where they are used: only an error needs them.
_HEAD = rf"[ \t]*+(?P<table>\[?)\[?[ \t]*+(?P<key>{_KEY}{_FURTHER}*+)"
_INLINE_TABLE = r"[ \t]*=[ \t]*\{"
_STRUCTURE = (
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{0,5}'
    r"|'''(?:[^']|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[\[{\]}\n]"
)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


def is_too_deep(text: str) -> bool:
    """Whether a dotted key has more than `MAX_PARTS` parts."""
    return _TOO_DEEP.search(text) is not None


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The line of the first statement that defines a key, something in it or the inline table around it.

    Args:
        text: valid TOML.
        keys: the key after all its tables.

    Returns:
        None if there is no such statement.
    """
    wanted = tuple(keys)
    table: tuple[str, ...] | None = ()
    pattern, inline_table = re.compile(_HEAD), re.compile(_INLINE_TABLE)
    for start, line in _statements(text):
        head = pattern.match(text, start)
        if head is None:  # blank, or a comment
            continue
        if head["table"]:
            path = table = _path((), head["key"], wanted)
        else:
            path = None if table is None else _path(table, head["key"], wanted)
        if path and (len(path) >= len(wanted) or inline_table.match(text, head.end())):
            return line
    return None


def table_statements(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each statement, blank line or comment of valid TOML with the table that it is in or begins."""
    table: tuple[str, ...] = ()
    pattern = re.compile(_HEAD)
    starts = [start for start, _ in _statements(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        head = pattern.match(text, start)
        if head is not None and head["table"]:
            table = tuple(_parts(head["key"]))
        if end > start:
            yield table, text[start:end]


def _path(table: tuple[str, ...], key: str, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    """A dotted key after its table, if it leads to the wanted key or into it."""
    following = wanted[len(table)]
    if following not in key and "\\" not in key:  # most keys end here
        return None
    path = (*table, *_parts(key))
    return path if all(one == other for one, other in zip(path, wanted, strict=False)) else None


def _parts(key: str) -> list[str]:
    if '"' not in key and "'" not in key:
        return [part.strip() for part in key.split(".")]
    parts = []
    data: Any = tomllib.loads(f"{key} = 0")
    while isinstance(data, dict):
        ((part, data),) = data.items()
        parts.append(part)
    return parts


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Where each statement, blank line or comment starts, and its line."""
    start, line, lines, depth = 0, 1, 1, 0
    for match in re.finditer(_STRUCTURE, text, re.DOTALL):
        part = match[0]
        lines += part.count("\n")
        depth += _DEPTH.get(part, 0)
        if part == "\n" and depth == 0:
            yield start, line
            start, line = match.end(), lines
    yield start, line
