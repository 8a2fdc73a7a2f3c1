"""`slurmgen results`: what the runs of a sweep measured, as a table or a plot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from slurmgen.cli.job_objects import ResultObject, Results
from slurmgen.cli.log_output import pruned
from slurmgen.cli.options import (
    complete_jobs,
    connect,
    find_jobs,
    json_option,
    route_options,
    site_option,
    write,
)
from slurmgen.cli.output import Command, color_option, print_json, say
from slurmgen.cli.tables import bars, drawn, print_rows, printed
from slurmgen.errors import RequestError
from slurmgen.status.job import Job
from slurmgen.status.logs import is_pruned
from slurmgen.status.sweep_results import Result, metrics_of, number_of, ranked, read_results
from slurmgen.submit.again import with_earlier
from slurmgen.text import visible


@click.command(
    "results",
    cls=Command,
    examples={
        "slurmgen results train": "Show what each run of the sweep train measured",
        "slurmgen results train --metric accuracy --descending": "The best run first",
        "slurmgen results train --csv": "Print them for another program",
        "slurmgen results train --metric loss --plot loss.svg": "Draw a bar for each run",
    },
)
@click.argument("job", metavar="ID", shell_complete=complete_jobs)
@site_option
@route_options
@click.option("--metric", metavar="NAME", help="Sort by this value.")
@click.option("--descending", is_flag=True, help="With --metric: the largest first.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of text.")
@click.option(
    "--plot",
    metavar="FILE",
    help="With --metric: draw bars into FILE, which ends with .svg, .html or .txt, or to the terminal (-).",
)
@color_option
@json_option
def command(
    job: str,
    site: str | None,
    metric: str | None,
    descending: bool,
    as_csv: bool,
    plot: str | None,
    color: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what the runs of a sweep measured, as a table or a plot.

    ID is the id or the name of a sweep, or `last`. The values of a run are those of summary.json in its
    folder, which the job knows as RUN_DIR, or else of the last line of metrics.jsonl.
    """
    if as_csv + as_json + (plot is not None) > 1:
        raise click.UsageError("--csv, --json and --plot exclude each other.")
    if (plot is not None or descending) and metric is None:
        raise click.UsageError("--plot and --descending need --metric.")
    read, gone = _read(find_jobs([job], site, **options))
    for one in gone:
        say(pruned(one, "results"))
    if gone and not any(one.values for one in read):
        click.get_current_context().exit(1)
    results = ranked(read, metric, descending=descending)
    if as_json:
        _print_json(results)
    elif as_csv:
        _print_csv(results)
    elif plot is not None and metric is not None:
        _plot(results, metric, plot, color)
    else:
        _print_table(results, metric, color)


def _read(jobs: Sequence[Job]) -> tuple[list[Result], list[Job]]:
    first = jobs[0]
    if first.record is None or not first.record.tasks:
        raise RequestError(
            f"job {first.id} is not a sweep", "`slurmgen fetch` fetches what another job made."
        )
    if str(first.id) != first.record.id:
        raise RequestError(f"{first.id} is a task of a sweep", f"Name the sweep, {first.record.id}.")
    with connect(first.route) as transport:
        arrays = with_earlier(jobs)
        results = read_results(transport, arrays)
        is_complete = all(one.values for one in results)
        return results, [] if is_complete else [one for one in arrays if is_pruned(transport, one)]


def _print_json(results: Sequence[Result]) -> None:
    print_json(
        Results(
            runs=[
                ResultObject(task=one.task, parameters=dict(one.parameters), values=_finite(one.values))
                for one in results
            ]
        )
    )


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values with null for NaN and infinity, which JSON does not have."""
    import math

    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _table(results: Sequence[Result], metric: str | None = None) -> tuple[list[str], list[list[Any]]]:
    parameters = list(dict.fromkeys(name for one in results for name in one.parameters))
    values = sorted(metrics_of(results), key=lambda name: name != metric)
    rows = [
        [
            one.task,
            *(one.parameters.get(name, "") for name in parameters),
            *(one.values.get(name, "") for name in values),
        ]
        for one in results
    ]
    return ["task", *parameters, *values], rows


def _print_csv(results: Sequence[Result]) -> None:
    import csv
    import io

    out = io.StringIO()
    headings, rows = _table(results)
    csv.writer(out, lineterminator="\n").writerows(
        [[_csv_cell(visible(str(cell))) for cell in row] for row in (headings, *rows)]
    )
    click.echo(out.getvalue(), nl=False)


def _csv_cell(text: str) -> str:
    """The text, after a `'` if a spreadsheet would run it as a formula."""
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _print_table(results: Sequence[Result], metric: str | None, color: str) -> None:
    headings, rows = _table(results, metric)
    shown = [[f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    print_rows([headings[0].upper(), *headings[1:]], shown, color)


def _plot(results: Sequence[Result], metric: str, target: str, color: str) -> None:
    rows = [(_label(one), number) for one in results if (number := number_of(one, metric)) is not None]
    if target == "-":
        printed(bars(metric, rows), color)
        return
    path = Path(target)
    write(path, drawn(metric, rows, path).encode())
    click.echo(visible(f"wrote {path}"), err=True)


def _label(result: Result) -> str:
    return visible(" ".join(f"{name}={text}" for name, text in result.parameters.items()))
