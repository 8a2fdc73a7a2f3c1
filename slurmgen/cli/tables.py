"""Tables and bars on a terminal."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.cli.output import columns, console, wrapped
from slurmgen.errors import RequestError
from slurmgen.slurm import units
from slurmgen.text import counted, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from slurmgen.live.gpus import Gpu, Sample
    from slurmgen.status.report import Report
    from slurmgen.submit.where import Option

WIDTH = 40
"Columns of the longest bar."
_COLUMNS = 120
_KINDS = (".svg", ".html", ".txt")
# The drawing loads nothing from the network.
_FONT_OF_THE_NETWORK = re.compile(r"@font-face\s*{[^}]*}\s*")


def bars(title: str, rows: Sequence[tuple[str, float]]) -> "Table":
    """A row for each label with its number and a bar, whose length is the number's from zero."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("")
    table.add_column(Text(title), justify="right")
    table.add_column("")
    longest = max((abs(number) for _, number in rows), default=0.0) or 1.0
    for label, number in rows:
        length = round(abs(number) / longest * WIDTH)
        style = "red" if number < 0 else "blue"
        table.add_row(Text(label), f"{number:.6g}", Text("█" * length, style=style))
    return table


def drawn(title: str, rows: Sequence[tuple[str, float]], path: Path) -> str:
    """The content of a file with a chart.

    Raises:
        RequestError: there is no drawing of that kind.
    """
    from rich.console import Console

    if path.suffix not in _KINDS:
        raise RequestError(
            f"--plot {path} is of none of the kinds {', '.join(_KINDS)}", "Choose another name."
        )
    sheet = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, emoji=False)
    sheet.print(bars(title, rows))
    if path.suffix == ".svg":
        return _FONT_OF_THE_NETWORK.sub("", sheet.export_svg(title=title))
    return sheet.export_html() if path.suffix == ".html" else sheet.export_text()


BAR = 20
"Characters of a full bar."


def print_sample(sample: "Sample", screen: "Console") -> None:
    """Print a sample of a job."""
    _gpu_line(screen, _head(sample))
    _gpu_line(screen, _used(sample))
    width = max((len(gpu.node) for gpu in sample.gpus), default=0)
    for gpu in sample.gpus:
        _gpu_line(screen, f"  {gpu.node:<{width}} {_gpu(gpu)}")
    for text in sample.verdict:
        _gpu_line(screen, text, "bold")
    if sample.stand_in:
        _gpu_line(
            screen, "the GPUs are invented: a twin has none, and a stand-in for nvidia-smi reports them"
        )
    if sample.problem:
        _gpu_line(screen, f"the GPUs are not known: {sample.problem}", "red")


def _gpu_line(screen: "Console", text: str, style: str = "") -> None:
    from rich.text import Text

    if screen.is_terminal:
        screen.print(Text(visible(text)), style=style, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        screen.print(Text(visible(text)), soft_wrap=True)


def _head(sample: "Sample") -> str:
    name = f" ({sample.name})" if sample.name else ""
    elapsed = units.canonical_time(sample.elapsed) if sample.elapsed is not None else "-"
    limit = f"/{units.canonical_time(sample.time_limit)}" if sample.time_limit else ""
    return f"job {sample.id}{name} at {sample.site} is {sample.state} for {elapsed}{limit} on {sample.nodes}"


def _used(sample: "Sample") -> str:
    cpus = counted(sample.cpus, "CPU")
    share = f"{sample.cpu_percent} % of {cpus} since its start" if sample.cpu_percent is not None else cpus
    memory = f", memory {units.canonical_size(sample.memory_used)}" if sample.memory_used is not None else ""
    return share + (memory or ", memory not sampled by Slurm")


def _gpu(gpu: "Gpu") -> str:
    share = gpu.utilization
    bar = "#" * round(BAR * min(share or 0, 100) / 100)
    busy = f"{share:>3} %" if share is not None else "  ? %"
    memory = _of(gpu.memory_used, gpu.memory, units.canonical_size)
    power = _of(gpu.power, gpu.power_limit, lambda watts: f"{watts} W")
    return f"GPU {gpu.index:<2} {busy} [{bar:<{BAR}}] {memory:>14}  {power:>13}  {gpu.name}"


def _of(used: int | None, most: int | None, form: Callable[[int], str]) -> str:
    parts = [form(value) for value in (used, most) if value is not None]
    return "/".join(parts) or "?"


STATUS_HEADINGS = ("ID", "NAME", "SITE", "STATE", "TIME/LIMIT", "SUBMITTED")

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


def print_status_table(reports: "Sequence[Report]", console: "Console") -> None:
    """Print a table that fits the console; the error of a site stands below it, once."""
    from slurmgen.status.listing import reasons

    rows = [_status_cells(report) for report in reports]
    widths = fitted(
        [max(map(len, column)) for column in zip(STATUS_HEADINGS, *rows, strict=True)], console.width
    )
    console.print(_row(STATUS_HEADINGS, widths, "bold"), no_wrap=True, overflow="ellipsis")
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
        text = Text(cell, style=state_style if column == STATUS_HEADINGS.index("STATE") else "")
        text.truncate(width, overflow="ellipsis", pad=True)
        row.append_text(text).append(" " * GAP)
    row.rstrip()
    return row


def print_wrapped(text: str, console: "Console", indent: str = "", style: str = "") -> None:
    """Print text in several lines. A path longer than the terminal stays whole, so that it can be copied."""
    from rich.text import Text

    for line in wrapped(visible(text), console.width - len(indent)):
        console.print(Text(indent + line), style=style, soft_wrap=True)


def _status_cells(report: "Report") -> tuple[str, ...]:
    from slurmgen.status.report_text import local_time

    job, record = report.job, report.job.record
    submitted = local_time(record.submitted if record else "")[: len("2026-01-31 12:00")]
    cells = (job.id.number or "-", report.name, job.route.short_place, report.state, _time(report), submitted)
    return tuple(map(visible, cells))


def _time(report: "Report") -> str:
    if report.elapsed is None:
        return "-"
    limit = f"/{units.canonical_time(report.time_limit)}" if report.time_limit else ""
    return units.canonical_time(report.elapsed) + limit


def print_tasks(report: "Report", color: str) -> None:
    """Print a row for each run of a sweep: its task, its parameters, the state of the task, and its time."""
    from slurmgen.slurm.replies import in_one_form
    from slurmgen.status.job import names_of
    from slurmgen.status.sweep import UNLISTED, tasks

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
    out = console(color)
    for number, line in enumerate(columns(shown)):
        out.print(Text(line, style="" if number else "bold"), soft_wrap=True)


WHERE_HEADINGS = ("SITE", "PARTITION", "START (ESTIMATE)", "FREE NOW", "PENDING", "PRICE")

NOTE = "starts are Slurm's estimates; prices are of the whole time limit"


def print_where_table(options: "Sequence[Option]", console: "Console") -> None:
    """Print a row for each option, in their order."""
    from rich.text import Text

    heading, *lines = columns([WHERE_HEADINGS, *map(_where_cells, options)])
    console.print(Text(heading, style="bold"), soft_wrap=True)
    for option, line in zip(options, lines, strict=True):
        style = "green" if option.can_run else "red" if option.refused else "magenta"
        console.print(Text(line, style=style), soft_wrap=True)
        for reason in filter(None, (option.refused, option.error)):
            print_wrapped(reason, console, " " * GAP, "dim")
    if any(option.start for option in options):
        print_wrapped(NOTE, console, style="dim")


def _where_cells(option: "Option") -> tuple[str, ...]:
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
    return f"in {units.canonical_time(option.wait)}" if option.wait else "now"


def _free(option: "Option") -> str:
    if option.gpus:
        kind = f" {option.gpu_type}" if option.gpu_type else ""
        return "-" if option.free_gpus is None else f"{option.free_gpus}{kind} GPUs"
    return "-" if option.free_cpus is None else f"{option.free_cpus} CPUs"
