"""`slurmgen fetch`: fetch the results of a job."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.route_options import connect, find_jobs, jobs_options
from slurmgen.cli.size_option import max_size_option
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.results.fetch import Fetched
    from slurmgen.remote.transport import Transport

_LISTED = 20
"Files of one kind that are listed on the terminal; --json lists all."


@click.command()
@jobs_options
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Local folder; default: NAME-ID of the job. For several jobs: the folder of these folders.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Only files or folders with such a name, as '*.out'; may repeat.",
)
@click.option("--overwrite", is_flag=True, help="Replace local files that have different content.")
@max_size_option("100G", "Refuse to fetch more of one job.")
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
    """Fetch what a job wrote in its folder.

    Only files that the job made or changed are fetched. The local folder is printed to stdout; a new one
    in the project gets a .gitignore, so that it is not sent with the next job. No local file is overwritten
    without --overwrite. Exit code 1 if a file was not fetched, for that reason or because it is not safe.
    """
    from slurmgen.jobs.job import for_each
    from slurmgen.jobs.results.fetch import fetch

    jobs = find_jobs(job_ids, site, **options)
    records = {job: _record_of(job) for job in jobs}
    folders = {job: _folder(records[job], to, len(job_ids)) for job in jobs}

    def fetch_one(transport: "Transport", job: "Job") -> dict[str, Any]:
        record, folder = records[job], folders[job]
        is_new = not folder.is_dir() or not any(folder.iterdir())
        fetched = fetch(transport, record.folder, folder, only, overwrite=overwrite, max_size=max_size)
        if is_new and _is_in_project(folder):
            _ignore(folder)
        _report(record, folder, fetched, quiet=as_json)
        return _as_json(record, folder, fetched)

    results = for_each(jobs, connect, fetch_one)
    if as_json:
        print_jobs(results, several=len(job_ids) > 1)
    ctx.exit(any(result["kept"] or result["refused"] for result in results))


def _folder(record: "Record", to: Path | None, jobs: int) -> Path:
    """The local folder of a job; each has its own, because jobs write files of the same names."""
    from slurmgen.errors import RequestError
    from slurmgen.files import is_inside

    own = Path(f"{record.name}-{record.id}")
    folder = own if to is None else to if jobs == 1 else to / own
    if folder != to and folder.is_symlink():  # a cloned repository may contain one
        raise RequestError(f"{folder} is a link", "Remove it, or name another folder with --to.")
    if is_inside(Path.home(), folder):
        raise RequestError(
            f"{folder} contains your home folder, where a fetched file could change what your shell does",
            "Name another folder with --to.",
        )
    return folder


def _is_in_project(folder: Path) -> bool:
    """Whether the next submission of the current project would send a folder."""
    from slurmgen.config.project import FILE_NAME
    from slurmgen.files import is_inside

    here = Path.cwd()
    project = next((path for path in (here, *here.parents) if (path / FILE_NAME).is_file()), here)
    return is_inside(folder, project) and not is_inside(project, folder)


def _ignore(folder: Path) -> None:
    """Keep results in the project's folder out of commits and of the next submission."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
        file.write("# Made by `slurmgen fetch`: remove it to commit or send these files.\n*\n")


def _record_of(job: "Job") -> "Record":
    from slurmgen.errors import RequestError

    if job.record is None:
        raise RequestError(
            f"job {job.id} is not in your records, so its folder is not known",
            "`slurmgen status` lists the jobs in your records.",
        )
    return job.record


def _as_json(record: "Record", folder: Path, fetched: "Fetched") -> dict[str, Any]:
    from msgspec import to_builtins

    return {"id": record.id, "site": record.site, "to": str(folder), **to_builtins(fetched)}


def _report(record: "Record", folder: Path, fetched: "Fetched", *, quiet: bool) -> None:
    from slurmgen.text import visible

    if not quiet:
        click.echo(visible(str(folder)))
    same = f"; {counted(len(fetched.same), 'file')} already fetched" if fetched.same else ""
    lines = [f"fetched {counted(len(fetched.new), 'file')} of job {record.id} ({record.name}){same}"]
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
