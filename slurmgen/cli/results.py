"""`slurmgen fetch` and `slurmgen results`: what jobs made."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from slurmgen.cli.job_objects import FetchedFiles, ResultObject, Results
from slurmgen.cli.log_output import pruned
from slurmgen.cli.options import (
    complete_jobs,
    connect,
    find_jobs,
    jobs_options,
    json_option,
    max_size_option,
    route_options,
    site_option,
    write,
)
from slurmgen.cli.output import Command, color_option, console, print_jobs, print_json, say
from slurmgen.cli.tables import bars, drawn, print_rows
from slurmgen.errors import RequestError
from slurmgen.remote.transport import Transport
from slurmgen.results.fetch import Results as Fetched
from slurmgen.results.fetch import fetch_results, local_folder
from slurmgen.status.job import Job, for_each
from slurmgen.status.logs import is_pruned
from slurmgen.status.sweep_results import Result, metrics_of, number_of, ranked, read_results
from slurmgen.submit.again import with_earlier
from slurmgen.text import counted, visible

_LISTED = 20
"Files of one kind that are listed on the terminal; --json lists all."


@click.command(
    "fetch",
    cls=Command,
    examples={
        "slurmgen fetch last": "Fetch all results of the last job",
        "slurmgen fetch train --only '*.csv' --to results": "Fetch some of them into a folder",
    },
)
@jobs_options
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Local folder; default: NAME-ID of the job. Of several jobs, each gets a folder in it.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Fetch only files or folders of this name, such as '*.out'; repeatable.",
)
@click.option("--overwrite", is_flag=True, help="Overwrite local files that have other content.")
@max_size_option("100G", "Refuse to fetch more than this of one job.")
@click.pass_context
def fetch_command(
    ctx: click.Context,
    /,
    job_ids: tuple[str, ...],
    site: str | None,
    to: Path | None,
    only: tuple[str, ...],
    overwrite: bool,
    max_size: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Fetch the files that a job made or changed.

    The local folder is printed to stdout. If it is in the project, it gets a .gitignore, so that it is not
    sent with the next job. Local files are overwritten only with --overwrite. Exits with 1 if a file was not
    fetched, because it exists with other content or could do harm on this machine.
    """
    jobs = find_jobs(job_ids, site, **options)
    folders = {job: local_folder(job, to, shared=len(jobs) > 1) for job in jobs}

    def fetch_one(transport: Transport, job: Job) -> Fetched:
        results = fetch_results(transport, job, folders[job], only, overwrite=overwrite, max_size=max_size)
        _report(job, results, quiet=as_json)
        return results

    fetched = for_each(jobs, connect, fetch_one)
    if as_json:
        print_jobs([*map(_as_json, jobs, fetched)], several=len(job_ids) > 1)
    ctx.exit(any(results.kept or results.refused for results in fetched))


def _as_json(job: Job, results: Fetched) -> FetchedFiles:
    values = structs.asdict(results)
    return FetchedFiles(id=job.id.number, site=job.route.site, to=str(values.pop("folder")), **values)


def _report(job: Job, fetched: Fetched, *, quiet: bool) -> None:
    if not quiet:
        click.echo(visible(str(fetched.folder)))
    name = job.record.name if job.record else ""
    same = f"; {counted(len(fetched.same), 'file')} already fetched" if fetched.same else ""
    lines = [f"fetched {counted(len(fetched.new), 'file')} of job {job.id.number} ({name}){same}"]
    lines += _listed([f"{name} exists locally with different content" for name in fetched.kept])
    lines += _listed([f"{name}: {fetched.reasons[name]}" for name in fetched.refused])
    if fetched.kept:
        lines.append("--overwrite replaces local files; --to names another folder")
    for line in lines:
        click.echo(visible(line), err=True)


def _listed(reasons: list[str]) -> list[str]:
    lines = [f"not fetched: {reason}" for reason in reasons[:_LISTED]]
    more = len(reasons) - _LISTED
    return [*lines, f"not fetched: {more} more, which --json lists"] if more > 0 else lines


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
def results_command(
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
        objects = [
            ResultObject(task=one.task, parameters=dict(one.parameters), values=_finite(one.values))
            for one in results
        ]
        print_json(Results(runs=objects))
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


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values with null for NaN and infinity, which JSON does not have."""
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
    rows = [
        (visible(" ".join(f"{name}={text}" for name, text in one.parameters.items())), number)
        for one in results
        if (number := number_of(one, metric)) is not None
    ]
    if target == "-":
        console(color).print(bars(metric, rows))
        return
    path = Path(target)
    write(path, drawn(metric, rows, path).encode())
    click.echo(visible(f"wrote {path}"), err=True)
