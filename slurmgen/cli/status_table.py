"""The list of `slurmgen status`: a row for each job, and below it why it waits, failed or is not known."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slurmgen.slurm import durations
from slurmgen.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from slurmgen.jobs.report import Report

HEADINGS = ("ID", "NAME", "SITE", "STATE", "TIME/LIMIT", "SUBMITTED")
LEAST = {1: 8, 2: 12, 4: 17, 3: 9, 0: 8, 5: 10}
"Columns that are cut where the terminal is too narrow, in this order, each to its least width."
GAP = 2
STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "PENDING": "yellow",
    "UNKNOWN": "magenta",
    "GONE": "magenta",
}
FAILED = "red"


def print_table(reports: "Sequence[Report]", console: "Console") -> None:
    """Print a table that fits the console, and each reason why a site is not known once below it."""
    rows = [_cells(one) for one in reports]
    widths = fitted([max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)], console.width)
    console.print(_row(HEADINGS, widths, "bold"), no_wrap=True, overflow="ellipsis")
    for cells, report in zip(rows, reports, strict=True):
        style = STYLES.get(report.state, FAILED if report.ended else "")
        console.print(_row(cells, widths, "", style), no_wrap=True, overflow="ellipsis")
        for reason in _reasons(report):
            _print_wrapped(reason, console, " " * GAP, "dim")
    for error in dict.fromkeys(f"{one.site}: {one.error}" for one in reports if one.error and one.id):
        _print_wrapped(error, console)


def fitted(widths: Sequence[int], total: int) -> list[int]:
    """Widths of columns, cut so that a row takes no more than `total`.

    >>> fitted([4, 30, 4, 9, 17, 16], 80)
    [4, 20, 4, 9, 17, 16]
    """
    found = list(widths)
    excess = sum(found) + GAP * (len(found) - 1) - total
    for column, least in LEAST.items():
        cut = max(0, min(excess, found[column] - least))
        found[column] -= cut
        excess -= cut
    return found


def _row(cells: Sequence[str], widths: Sequence[int], style: str, state_style: str = "") -> "Text":
    from rich.text import Text

    row = Text(style=style)
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = Text(cell, style=state_style if column == HEADINGS.index("STATE") else "")
        text.truncate(width, overflow="ellipsis", pad=True)
        row.append_text(text).append(" " * GAP)
    row.rstrip()
    return row


def _print_wrapped(words: str, console: "Console", indent: str = "", style: str = "") -> None:
    """Print words over several lines; a path longer than the terminal stays whole, to be copied."""
    from rich.text import Text

    width = console.width - len(indent)
    for line in textwrap.wrap(visible(words), width, break_long_words=False, break_on_hyphens=False):
        console.print(Text(indent + line), style=style, soft_wrap=True)


def _cells(one: "Report") -> tuple[str, ...]:
    from slurmgen.jobs.report import local_time

    site = f"{one.site} twin" if one.via == "twin" else one.site
    submitted = local_time(one.submitted)[: len("2026-01-31 12:00")]
    return tuple(visible(cell) for cell in (one.id or "-", one.name, site, one.state, _time(one), submitted))


def _time(one: "Report") -> str:
    if one.elapsed is None:
        return "-"
    limit = f"/{durations.canonical(one.time_limit)}" if one.time_limit else ""
    return durations.canonical(one.elapsed) + limit


def _reasons(one: "Report") -> Iterator[str]:
    if one.waits or one.reason:
        yield one.waits or one.reason
    if one.why:
        yield one.why.what
    if not one.id:
        yield one.error
        if one.command:
            yield f"{one.directory}$ {one.command}"
