"""`slurmgen fetch`: bring back what a job made."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.route_options import find_jobs, jobs_options, reach
from slurmgen.cli.size_option import max_size_option
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.results.fetch import Fetched
    from slurmgen.jobs.status import Named
    from slurmgen.remote.transport import Transport

_LISTED = 20
"Files of one kind that are named on the terminal; --json names all."


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
    **said: Any,
) -> None:
    """Fetch the files that a job made or changed.

    The local folder is printed to stdout. If it is in the project, it gets a .gitignore, so that it is not
    sent with the next job. Local files are overwritten only with --overwrite. Exits with 1 if a file was not
    fetched, because it exists with other content or could do harm on this machine.
    """
    from slurmgen.jobs.results.fetch import fetch
    from slurmgen.jobs.status import each

    jobs = find_jobs(job_ids, site, **said)
    records = {one: _recorded(one) for one in jobs}
    folders = {one: _folder(records[one], to, len(job_ids)) for one in jobs}

    def bring(transport: "Transport", one: "Named") -> dict[str, Any]:
        record, folder = records[one], folders[one]
        is_new = not folder.is_dir() or not any(folder.iterdir())
        fetched = fetch(transport, record.folder, folder, only, overwrite=overwrite, max_size=max_size)
        if is_new and _is_in_project(folder):
            _ignore(folder)
        _report(record, folder, fetched, quiet=as_json)
        return _as_json(record, folder, fetched)

    outcomes = each(jobs, reach, bring)
    if as_json:
        print_jobs(outcomes, several=len(job_ids) > 1)
    ctx.exit(any(one["kept"] or one["refused"] for one in outcomes))


def _folder(record: "Record", to: Path | None, jobs: int) -> Path:
    """Where results go: a folder each, since two jobs make files of the same names."""
    from slurmgen.errors import RequestError
    from slurmgen.files import is_inside

    own = Path(f"{record.name}-{record.id}")
    folder = own if to is None else to if jobs == 1 else to / own
    if folder != to and folder.is_symlink():  # a cloned repository may have one of that name
        raise RequestError(f"{folder} is a link", "Remove it, or name another folder with --to.")
    if is_inside(Path.home(), folder):
        raise RequestError(
            f"{folder} holds your home folder, where a file of a job can change what your shell does",
            "Name another folder with --to.",
        )
    return folder


def _is_in_project(folder: Path) -> bool:
    """Whether the next submission from here would send a folder."""
    from slurmgen.config.project import FILE_NAME
    from slurmgen.files import is_inside

    here = Path.cwd()
    project = next((one for one in (here, *here.parents) if (one / FILE_NAME).is_file()), here)
    return is_inside(folder, project) and not is_inside(project, folder)


def _ignore(folder: Path) -> None:
    """Let results in the project's folder neither be committed nor sent along with the next job."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
        file.write("# Made by `slurmgen fetch`: remove it to commit or send what is here.\n*\n")


def _recorded(one: "Named") -> "Record":
    from slurmgen.errors import RequestError

    if one.record is None:
        raise RequestError(
            f"job {one.job} is not in your records, so that its folder is not known",
            "`slurmgen status` lists what was submitted from here.",
        )
    return one.record


def _as_json(record: "Record", folder: Path, fetched: "Fetched") -> dict[str, Any]:
    from msgspec import to_builtins

    return {"id": record.id, "site": record.site, "to": str(folder), **to_builtins(fetched)}


def _report(record: "Record", folder: Path, fetched: "Fetched", *, quiet: bool) -> None:
    from slurmgen.text import visible

    if not quiet:
        click.echo(visible(str(folder)))
    same = f"; {counted(len(fetched.same), 'file')} here already" if fetched.same else ""
    lines = [f"fetched {counted(len(fetched.new), 'file')} of job {record.id} ({record.name}){same}"]
    lines += _listed([f"{name} is here with another content" for name in fetched.kept])
    lines += _listed([f"{name}: {fetched.reasons[name]}" for name in fetched.refused])
    if fetched.kept:
        lines.append("--overwrite replaces what is here; --to takes another folder")
    for line in lines:
        click.echo(visible(line), err=True)


def _listed(reasons: list[str]) -> list[str]:
    lines = [f"not fetched: {reason}" for reason in reasons[:_LISTED]]
    more = len(reasons) - _LISTED
    return [*lines, f"not fetched: {more} more, which --json names"] if more > 0 else lines
