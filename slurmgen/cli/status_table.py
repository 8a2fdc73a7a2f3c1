"""The list of `slurmgen status`: a row for each job, and why it waits, failed or is unknown below it."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurmgen.slurm import durations
from slurmgen.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from slurmgen.jobs.report import Report

HEADINGS = ("ID", "NAME", "SITE", "STATE", "TIME/LIMIT", "SUBMITTED")
MIN_WIDTHS = {1: 8, 2: 12, 4: 17, 3: 9, 0: 8, 5: 10}
"If the terminal is too narrow, columns are cut in this order, each down to its minimum."
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
    """Print a table that fits the console; the error of a site stands below it, once."""
    from slurmgen.jobs.listing import reasons

    rows = [_cells(report) for report in reports]
    widths = fitted([max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)], console.width)
    console.print(_row(HEADINGS, widths, "bold"), no_wrap=True, overflow="ellipsis")
    for cells, report in zip(rows, reports, strict=True):
        style = STYLES.get(report.state, FAILED if report.ended else "")
        console.print(_row(cells, widths, "", style), no_wrap=True, overflow="ellipsis")
        for reason in reasons(report):
            print_wrapped(reason, console, " " * GAP, "dim")
    errors = (
        f"{report.job.route.site}: {report.error}"
        for report in reports
        if report.error and report.job.id.number
    )
    for error in dict.fromkeys(errors):
        print_wrapped(error, console)


def fitted(widths: Sequence[int], total: int) -> list[int]:
    """Widths of columns, cut so that a row takes no more than `total`.

    >>> fitted([4, 30, 4, 9, 17, 16], 80)
    [4, 20, 4, 9, 17, 16]
    """
    cut_widths = list(widths)
    excess = sum(widths) + GAP * (len(widths) - 1) - total
    for column, least in MIN_WIDTHS.items():
        cut = max(0, min(excess, cut_widths[column] - least))
        cut_widths[column] -= cut
        excess -= cut
    return cut_widths


def _row(cells: Sequence[str], widths: Sequence[int], style: str, state_style: str = "") -> "Text":
    from rich.text import Text

    row = Text(style=style)
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = Text(cell, style=state_style if column == HEADINGS.index("STATE") else "")
        text.truncate(width, overflow="ellipsis", pad=True)
        row.append_text(text).append(" " * GAP)
    row.rstrip()
    return row


def print_wrapped(text: str, console: "Console", indent: str = "", style: str = "") -> None:
    """Print text in several lines. A path longer than the terminal stays whole, so that it can be copied."""
    from rich.text import Text

    width = console.width - len(indent)
    for line in textwrap.wrap(visible(text), width, break_long_words=False, break_on_hyphens=False):
        console.print(Text(indent + line), style=style, soft_wrap=True)


def _cells(report: "Report") -> tuple[str, ...]:
    from slurmgen.jobs.report_text import local_time

    job, record = report.job, report.job.record
    submitted = local_time(record.submitted if record else "")[: len("2026-01-31 12:00")]
    cells = (job.id.number or "-", report.name, job.route.short_place, report.state, _time(report), submitted)
    return tuple(map(visible, cells))


def _time(report: "Report") -> str:
    if report.elapsed is None:
        return "-"
    limit = f"/{durations.canonical(report.time_limit)}" if report.time_limit else ""
    return durations.canonical(report.elapsed) + limit
