"""The findings of rules, with their location, message, advice and fix."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmgen.lint.reader.source import Position, Span

if TYPE_CHECKING:
    from slurmgen.lint.reader import Script
    from slurmgen.sites.model import Site as Site
else:
    # Rules need the name for annotations only, and the module is slow to import.
    Site = object

Severity = Literal["error", "warning", "note"]
"error: the job fails or computes something else. warning: it wastes time or will collide. note: opt-in."


class Edit(NamedTuple):
    """A span of the text and its replacement."""

    span: Span
    text: str


class Finding(NamedTuple):
    """One fault in a script."""

    span: Span
    message: str
    advice: str = ""
    "What to write instead, in the imperative."
    edits: tuple[Edit, ...] = ()
    "The fix, if there is one."
    safe: bool = False
    "Whether the fix leaves the behaviour of every script that runs unchanged."


class Rule(NamedTuple):
    """One rule, as its module defines it."""

    code: str
    name: str
    severity: Severity
    summary: str
    doc: str
    check: "Callable[[Script, Site | None], Iterator[Finding]]"


class Report(NamedTuple):
    """A finding with its rule and its location in the file."""

    rule: Rule
    finding: Finding
    start: Position
    end: Position

    @property
    def sentence(self) -> str:
        """The message with the advice, on one line."""
        return "; ".join(filter(None, [self.finding.message, self.finding.advice]))
