"""The input of the report formats."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slurmgen.lint.finding import Report


class Linted(NamedTuple):
    """One file and its findings."""

    name: str
    "As given on the command line; `-` is standard input."
    text: str
    reports: tuple[Report, ...]


def each(files: Sequence[Linted]) -> Iterator[tuple[Linted, Report]]:
    """Every finding with its file."""
    return ((file, report) for file in files for report in file.reports)
