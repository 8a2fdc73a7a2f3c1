"""The tasks of a sweep as a table: parameters and states."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurmgen.cli.color import console
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.jobs.report import Report


def print_tasks(report: "Report", color: str) -> None:
    """Print a row for each run of a sweep: its task, its parameters, the state of the task, and its time."""
    from slurmgen.jobs.sweep_report import UNLISTED, tasks
    from slurmgen.jobs.sweep_table import names_of
    from slurmgen.slurm.usage import in_one_form

    names = names_of([table for _, table, _, _ in tasks(report)])
    rows = [
        [
            f"{id_}/{number}" if table.shares_gpus else id_,
            *(run.get(name, "") for name in names),
            state.state if state else UNLISTED,
            in_one_form(state.elapsed) if state else "",
        ]
        for id_, table, index, state in tasks(report)
        for number, run in enumerate(table.tasks[index])
    ]
    print_rows(["TASK", *names, "STATE", "TIME"], rows, color)


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]], color: str) -> None:
    """Print columns of text, as wide as they are; nothing is cut."""
    from rich.text import Text

    shown = [[visible(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    out = console(color)
    for number, row in enumerate(shown):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        out.print(Text(line, style="" if number else "bold"), soft_wrap=True)
