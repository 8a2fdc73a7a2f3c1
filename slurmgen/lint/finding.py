"""What a rule reports: the place, the fact, and what to write instead."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmgen.lint.reader.source import Position, Span

if TYPE_CHECKING:
    from slurmgen.lint.reader import Script
    from slurmgen.site import Site as Site
else:
    # Rules name the type, and only a caller who has a site needs its module, which is slow to import.
    Site = object

Severity = Literal["error", "warning"]


class Edit(NamedTuple):
    """A stretch of the text and what is to stand there."""

    span: Span
    text: str


class Finding(NamedTuple):
    """One fault in a script."""

    span: Span
    message: str
    advice: str = ""
    "What to write instead."
    edits: tuple[Edit, ...] = ()
    "The change that mends it, where it is certain."


class Rule(NamedTuple):
    """One rule, as its module says it."""

    code: str
    name: str
    severity: Severity
    summary: str
    doc: str
    check: "Callable[[Script, Site | None], Iterator[Finding]]"


class Report(NamedTuple):
    """A finding with the rule that made it and its place in the file."""

    rule: Rule
    finding: Finding
    start: Position
    end: Position
