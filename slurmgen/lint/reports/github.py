"""Annotations that GitHub shows next to the lines of a pull request."""

from collections.abc import Sequence

from slurmgen.lint.finding import Report
from slurmgen.lint.reports.base import Linted, each
from slurmgen.text import annotation


def report(files: Sequence[Linted]) -> str:
    """One workflow command for each finding."""
    return "".join(_command(file.name, found) for file, found in each(files))


def _command(name: str, found: Report) -> str:
    return annotation(
        "notice" if found.rule.severity == "note" else found.rule.severity,
        found.sentence,
        file=name,
        line=found.start.line,
        endLine=found.end.line,
        col=found.start.column,
        title=f"{found.rule.code} {found.rule.name}",
    )
