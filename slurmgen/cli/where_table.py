"""The table of `slurmgen where`: a row for each partition, and why it is refused below it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slurmgen.cli.status_table import GAP, print_wrapped
from slurmgen.slurm import durations
from slurmgen.text import visible

if TYPE_CHECKING:
    from rich.console import Console

    from slurmgen.jobs.where import Option

HEADINGS = ("SITE", "PARTITION", "START (ESTIMATE)", "FREE NOW", "PENDING", "PRICE")
NOTE = "starts are Slurm's estimates; prices are of the whole time limit"


def print_table(options: "Sequence[Option]", console: "Console") -> None:
    """Print a row for each option, in their order."""
    from rich.text import Text

    rows = [_cells(option) for option in options]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    console.print(Text(_line(HEADINGS, widths), style="bold"), soft_wrap=True)
    for option, cells in zip(options, rows, strict=True):
        style = "green" if option.can_run else "red" if option.refused else "magenta"
        console.print(Text(_line(cells, widths), style=style), soft_wrap=True)
        for reason in filter(None, (option.refused, option.error)):
            print_wrapped(reason, console, " " * GAP, "dim")
    if any(option.start for option in options):
        print_wrapped(NOTE, console, style="dim")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return (" " * GAP).join(padded).rstrip()


def _cells(option: "Option") -> tuple[str, ...]:
    return tuple(map(visible, (option.site, option.partition or "-", *_facts(option))))


def _facts(option: "Option") -> Iterator[str]:
    if not option.can_run:
        yield from ("refused" if option.refused else "not known", "-", "-", option.charge or "-")
        return
    yield _start(option)
    yield _free(option)
    yield "-" if option.pending is None else str(option.pending)
    yield option.charge or "-"


def _start(option: "Option") -> str:
    if option.wait is None:
        return "not known"
    return f"in {durations.canonical(option.wait)}" if option.wait else "now"


def _free(option: "Option") -> str:
    if option.gpus:
        kind = f" {option.gpu_type}" if option.gpu_type else ""
        return "-" if option.free_gpus is None else f"{option.free_gpus}{kind} GPUs"
    return "-" if option.free_cpus is None else f"{option.free_cpus} CPUs"
