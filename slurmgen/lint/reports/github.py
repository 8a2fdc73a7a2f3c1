"""Annotations that GitHub shows beside the lines of a pull request.

https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from collections.abc import Sequence

from slurmgen.lint.finding import Report
from slurmgen.lint.reports.base import Linted, each

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def report(files: Sequence[Linted]) -> str:
    """One workflow command for each finding."""
    return "".join(_command(file.name, found) + "\n" for file, found in each(files))


def _command(name: str, found: Report) -> str:
    place = f"line={found.start.line},endLine={found.end.line},col={found.start.column}"
    message = found.finding.message + (f"; {found.finding.advice}" if found.finding.advice else "")
    title = f"{found.rule.code} {found.rule.name}"
    return (
        f"::{found.rule.severity} file={_escaped(name, _PROPERTY)},{place},title={_escaped(title, _PROPERTY)}"
        f"::{_escaped(message, _DATA)}"
    )


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)
