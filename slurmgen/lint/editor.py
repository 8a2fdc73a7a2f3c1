"""Findings and changes as an editor in a browser takes them: JSON, with positions in UTF-16 units.

JavaScript counts a character outside the Basic Multilingual Plane, such as an emoji, as two. The text must be
that of the editor to the byte: with its own line ends, which the editor must not normalize.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec

from slurmgen.lint.engine import fix, lint_text
from slurmgen.lint.finding import Edit, Report
from slurmgen.lint.reader.source import Span
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.sites.model import Site

MOST = 500
"Findings that an editor shows."

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LONG = re.compile("[\U00010000-\U0010ffff]")


class Change(msgspec.Struct, frozen=True):
    """A range of the text and what replaces it."""

    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    insert: str


class Mark(msgspec.Struct, frozen=True):
    """A finding: where it is, what it says, and its fix, if there is one."""

    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    line: int
    column: int
    code: str
    rule: str
    severity: str
    message: str
    advice: str
    changes: tuple[Change, ...]
    safe: bool


class Findings(msgspec.Struct, frozen=True):
    """The findings of one script, in the order of its lines."""

    total: int
    "More than there are findings here, if the script has very many."
    findings: tuple[Mark, ...]


class Fixes(msgspec.Struct, frozen=True):
    """What all fixes together change, and the codes of the rules whose findings they remove."""

    changes: tuple[Change, ...]
    applied: tuple[str, ...]


def findings(text: str, site: "Site | None", codes: Iterable[str]) -> bytes:
    """The findings as the JSON of `Findings`."""
    reports, unit = lint_text(text, site, codes=codes), _units(text)
    marks = tuple(_mark(report, unit) for report in reports[:MOST])
    return msgspec.json.encode(Findings(len(reports), marks))


def fixes(text: str, site: "Site | None", codes: Iterable[str], unsafe: bool) -> bytes:
    """What `slurmgen lint --fix` would change, as the JSON of `Fixes`."""
    after = fix(text, site, codes=codes, unsafe=unsafe)
    unit = _units(text)
    changes = tuple(_change(edit, unit) for edit in _differences(text, after.text))
    return msgspec.json.encode(Fixes(changes, tuple(report.rule.code for report in after.applied)))


def _units(text: str) -> Callable[[int], int]:
    """Converts the index of a character to that of its first UTF-16 unit."""
    long = [match.start() for match in _LONG.finditer(text)]
    return lambda at: at + bisect_left(long, at)


def _mark(report: Report, unit: Callable[[int], int]) -> Mark:
    found = report.finding
    return Mark(
        unit(found.span.start),
        unit(found.span.end),
        *report.start,
        report.rule.code,
        report.rule.name,
        report.rule.severity,
        visible(found.message),
        visible(found.advice),
        tuple(_change(edit, unit) for edit in found.edits),
        found.safe,
    )


def _change(edit: Edit, unit: Callable[[int], int]) -> Change:
    return Change(unit(edit.span.start), unit(edit.span.end), edit.text)


def _differences(before: str, after: str) -> list[Edit]:
    """The lines that differ."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        Edit(Span(starts[i], starts[j]), "".join(new[k:m])) for kind, i, j, k, m in blocks if kind != "equal"
    ]
