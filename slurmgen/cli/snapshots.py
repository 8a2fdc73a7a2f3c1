"""`slurmgen snapshots`: list what slurmgen keeps at a site, and remove what no job needs."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_json
from slurmgen.cli.route_options import connect, json_option, project_dir, route_options, site_route
from slurmgen.cli.site_option import site_option
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.jobs.prune import Kept

DAYS = 7.0


@click.command(
    "snapshots",
    cls=Command,
    examples={
        "slurmgen snapshots --site daic": "List what slurmgen stores at a site",
        "slurmgen snapshots --site daic --prune --older-than 30": "Remove what was not used for 30 days",
    },
)
@site_option
@route_options
@click.option(
    "--remote-dir", metavar="FOLDER", help="Folder on the cluster for submissions; default: ~/slurmgen."
)
@click.option("--prune", is_flag=True, help="Remove runs that have ended, and snapshots that no job uses.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help=f"With --prune: remove what was not used for this long; default: {DAYS:g}.",
)
@json_option
def command(
    site: str | None,
    remote_dir: str | None,
    prune: bool,
    older_than: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List what slurmgen stores at a site, and remove what no job needs.

    A snapshot is a project as it was submitted; a run is the folder of one job, with its results; an env is a
    Python environment that runs with the same uv.lock share. What may be in use is not removed: the
    files of a job that has not ended, or of a submission whose outcome is unknown, and all files if Slurm
    does not reply.
    """
    from slurmgen.config.project import DEFAULT_SITE, find_project
    from slurmgen.config.user import load_personal
    from slurmgen.jobs.project_content import DEFAULT_REMOTE_DIR
    from slurmgen.jobs.prune import kept
    from slurmgen.sync.remote_paths import remote_folder

    if older_than is not None and not prune:
        raise click.UsageError("--older-than needs --prune.")
    name = site or find_project(project_dir())[1].site or DEFAULT_SITE
    route = site_route(options, name)
    folder = remote_folder(remote_dir or load_personal(name).remote_dir or DEFAULT_REMOTE_DIR) or "/"
    with connect(route) as transport:
        days = DAYS if older_than is None else older_than
        complaint, items = kept(transport, folder, prune=prune, days=days)
    if as_json:
        from slurmgen.cli.objects.jobs import Snapshots

        print_json(Snapshots(kept=list(items), complaint=complaint))
    else:
        _print_rows(items)
    _print_sum(items, complaint, prune)


def _print_rows(items: "tuple[Kept, ...]") -> None:
    from datetime import UTC, datetime

    from slurmgen.slurm.sizes import of_bytes

    for item in items:
        used = datetime.fromtimestamp(item.used, UTC).isoformat(sep=" ", timespec="minutes")[:16]
        name = item.name if item.kind == "run" else item.name[:12]
        detail = f": {item.detail}" if item.detail else ""
        line = f"{used}  {of_bytes(item.size):>9}  {item.kind:8}  {item.project}/{name}  {item.state}{detail}"
        click.echo(visible(line))


def _print_sum(items: "tuple[Kept, ...]", complaint: str, prune: bool) -> None:
    from slurmgen.slurm.sizes import of_bytes

    if complaint:
        message = " ".join(complaint.split())
        click.echo(visible(f"warning: Slurm did not report which jobs have ended: {message}"), err=True)
    state, label = ("removed", "removed") if prune else ("free", "no job needs")
    sizes = [item.size for item in items if item.state == state]
    click.echo(f"{label} {len(sizes)} of {len(items)}: {of_bytes(sum(sizes))}", err=True)
