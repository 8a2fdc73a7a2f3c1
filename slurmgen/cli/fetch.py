"""`slurmgen fetch`: bring back what a job made."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.route_options import find_jobs, jobs_options, reach
from slurmgen.cli.told import print_jobs
from slurmgen.wording import counted

if TYPE_CHECKING:
    from slurmgen.asking import Named
    from slurmgen.ledger import Record
    from slurmgen.remote.results import Fetched
    from slurmgen.remote.transport import Transport


@click.command()
@jobs_options
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder here; NAME-ID of the job if unset, and in this folder for several jobs.",
)
@click.option(
    "--only", multiple=True, metavar="PATTERN", help="Only files or folders so named, as '*.out'; may repeat."
)
@click.option("--overwrite", is_flag=True, help="Replace files here that have another content.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    job_ids: tuple[str, ...],
    site: str | None,
    to: Path | None,
    only: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
    **said: Any,
) -> None:
    """Bring back what a job made in its folder.

    That is what it made or changed; what the project had before stays there. The folder here is
    printed to stdout; a new one of our naming has a .gitignore, so that it is not sent with the next
    job. Nothing here is overwritten unless you say so; exit code 1 if something was left there for that.
    """
    from slurmgen.asking import each
    from slurmgen.remote.results import fetch

    jobs = find_jobs(job_ids, site, **said)
    records = {one: _recorded(one) for one in jobs}

    def bring(far: "Transport", one: "Named") -> dict[str, Any]:
        record = records[one]
        folder = _folder(record, to, len(job_ids))
        is_new = not folder.exists()
        came = fetch(far, record.folder, folder, only, overwrite=overwrite)
        if to is None and is_new:
            _keep_out(folder)
        _report(record, folder, came, quiet=as_json)
        return _told(record, folder, came)

    told = each(jobs, reach, bring)
    if as_json:
        print_jobs(told, several=len(job_ids) > 1)
    ctx.exit(any(one["kept"] or one["refused"] for one in told))


def _folder(record: "Record", to: Path | None, jobs: int) -> Path:
    """Where results go: a folder each, since two jobs make files of the same names."""
    own = Path(f"{record.name}-{record.id}")
    if to is None:
        return own
    return to if jobs == 1 else to / own


def _keep_out(folder: Path) -> None:
    """Let results in the project's folder neither be committed nor sent along with the next job."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("# Made by `slurmgen fetch`: remove it to commit or send what is here.\n*\n")


def _recorded(one: "Named") -> "Record":
    from slurmgen.errors import RequestError

    if one.record is None:
        raise RequestError(
            f"job {one.job} is not in your records, so that its folder is not known",
            "`slurmgen status` lists what was submitted from here.",
        )
    return one.record


def _told(record: "Record", folder: Path, came: "Fetched") -> dict[str, Any]:
    from msgspec import to_builtins

    return {"id": record.id, "site": record.site, "to": str(folder), **to_builtins(came)}


def _report(record: "Record", folder: Path, came: "Fetched", *, quiet: bool) -> None:
    from slurmgen.wording import visible

    if not quiet:
        click.echo(visible(str(folder)))
    same = f"; {counted(len(came.same), 'file')} here already" if came.same else ""
    lines = [f"fetched {counted(len(came.new), 'file')} of job {record.id} ({record.name}){same}"]
    lines += [f"not fetched: {name} is here with another content" for name in came.kept]
    lines += [f"not fetched: {name} is no file, or leads out of the folder" for name in came.refused]
    if came.kept:
        lines.append("--overwrite replaces what is here; --to takes another folder")
    for line in lines:
        click.echo(visible(line), err=True)
