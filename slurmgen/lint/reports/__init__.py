"""Reports: one format a file. A dict lists them, each a function of all files to text."""

from collections.abc import Callable, Sequence

from slurmgen.lint.reports import github, text
from slurmgen.lint.reports import json as json_report
from slurmgen.lint.reports import sarif as sarif_report
from slurmgen.lint.reports.base import Linted

FORMATS: dict[str, Callable[[Sequence[Linted]], str]] = {
    "text": text.report,
    "json": json_report.report,
    "sarif": sarif_report.report,
    "github": github.report,
}

__all__ = ["FORMATS", "Linted"]
