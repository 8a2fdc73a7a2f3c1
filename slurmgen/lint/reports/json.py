"""The format `json`: one list with all findings."""

from collections.abc import Sequence

from slurmgen.lint.finding import Report
from slurmgen.lint.reports.base import Linted, each
from slurmgen.text import visible_json


def report(files: Sequence[Linted]) -> str:
    """One object for each finding."""
    return visible_json([_object(file.name, found) for file, found in each(files)], indent=2)


def _object(name: str, found: Report) -> dict[str, object]:
    return {
        "file": name,
        "line": found.start.line,
        "column": found.start.column,
        "end_line": found.end.line,
        "end_column": found.end.column,
        "code": found.rule.code,
        "rule": found.rule.name,
        "severity": found.rule.severity,
        "message": found.finding.message,
        "advice": found.finding.advice,
        "fixable": bool(found.finding.edits),
        "fix": ("safe" if found.finding.safe else "unsafe") if found.finding.edits else None,
    }
