"""`slurmgen fetch`: fetch the results of a job."""

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from slurmgen.cli.job_objects import FetchedFiles
from slurmgen.cli.options import connect, find_jobs, jobs_options, max_size_option
from slurmgen.cli.output import Command, print_jobs
from slurmgen.remote.transport import Transport
from slurmgen.results.fetch import Results, fetch_results, local_folder
from slurmgen.status.job import Job, for_each
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
def command(
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

    def fetch_one(transport: Transport, job: Job) -> Results:
        results = fetch_results(transport, job, folders[job], only, overwrite=overwrite, max_size=max_size)
        _report(job, results, quiet=as_json)
        return results

    fetched = for_each(jobs, connect, fetch_one)
    if as_json:
        print_jobs([*map(_as_json, jobs, fetched)], several=len(job_ids) > 1)
    ctx.exit(any(results.kept or results.refused for results in fetched))


def _as_json(job: Job, results: Results) -> FetchedFiles:
    values = structs.asdict(results)
    return FetchedFiles(id=job.id.number, site=job.route.site, to=str(values.pop("folder")), **values)


def _report(job: Job, fetched: Results, *, quiet: bool) -> None:
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
