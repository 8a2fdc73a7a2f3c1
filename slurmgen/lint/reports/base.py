"""What a report is made of."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slurmgen.lint.finding import Report


class Linted(NamedTuple):
    """One file and what was found in it."""

    name: str
    "As it was given; `-` is standard input."
    text: str
    reports: tuple[Report, ...]


def each(files: Sequence[Linted]) -> Iterator[tuple[Linted, Report]]:
    """Every finding with its file."""
    return ((file, report) for file in files for report in file.reports)
