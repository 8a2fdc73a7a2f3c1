"""`slurmgen snapshots`: what is kept at a site, and removing what no job needs."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import print_json
from slurmgen.cli.route_options import project_dir, reach, route_options
from slurmgen.cli.site_option import site_option

if TYPE_CHECKING:
    from slurmgen.jobs.prune import Kept

DAYS = 7.0


@click.command()
@site_option
@route_options
@click.option("--remote-dir", metavar="FOLDER", help="Remote folder of submissions; default: ~/slurmgen.")
@click.option("--prune", is_flag=True, help="Remove ended runs, and snapshots that no job still runs.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help=f"With --prune: what was not used for this long; default: {DAYS:g}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object, and nothing else.")
def command(
    site: str | None,
    remote_dir: str | None,
    prune: bool,
    older_than: float | None,
    as_json: bool,
    **said: Any,
) -> None:
    """List what is kept at a site, and remove what no job needs.

    A snapshot is a project as it was submitted; a run is the folder of one job, with what it made; an
    env is a Python environment that runs with the same uv.lock share.
    What may be in use stays: a job that has not ended, a submission of which nothing is known yet,
    and everything while Slurm does not answer.
    """
    from slurmgen.config.project import DEFAULT_SITE, find_project
    from slurmgen.config.user import load_personal
    from slurmgen.jobs.prune import kept
    from slurmgen.jobs.submit import DEFAULT_REMOTE_DIR
    from slurmgen.remote.route import find_route
    from slurmgen.sites.profiles import load_site
    from slurmgen.sync.remote_paths import remote_folder

    if older_than is not None and not prune:
        raise click.UsageError("--older-than says what --prune removes.")
    place = load_site(site or find_project(project_dir())[1].site or DEFAULT_SITE, project_dir())
    own = load_personal(place.name)
    folder = remote_folder(remote_dir or own.remote_dir or DEFAULT_REMOTE_DIR) or "/"
    with reach(find_route(place, own, **said)) as far:
        days = DAYS if older_than is None else older_than
        complaint, found = kept(far, folder, prune=prune, days=days)
    if as_json:
        print_json({"kept": found, "complaint": complaint})
    else:
        _show(found)
    _sum_up(found, complaint, prune)


def _show(found: "tuple[Kept, ...]") -> None:
    from datetime import UTC, datetime

    from slurmgen.slurm.sizes import of_bytes
    from slurmgen.text import visible

    for one in found:
        when = datetime.fromtimestamp(one.used, UTC).isoformat(sep=" ", timespec="minutes")[:16]
        name = one.name if one.kind == "run" else one.name[:12]
        detail = f": {one.detail}" if one.detail else ""
        line = f"{when}  {of_bytes(one.size):>9}  {one.kind:8}  {one.project}/{name}  {one.state}{detail}"
        click.echo(visible(line))


def _sum_up(found: "tuple[Kept, ...]", complaint: str, prune: bool) -> None:
    from slurmgen.slurm.sizes import of_bytes
    from slurmgen.text import visible

    if complaint:
        words = " ".join(complaint.split())
        click.echo(visible(f"warning: Slurm does not say which jobs have ended: {words}"), err=True)
    state = "removed" if prune else "free"
    chosen = [one for one in found if one.state == state]
    what = "removed" if prune else "no job needs"
    click.echo(f"{what} {len(chosen)} of {len(found)}: {of_bytes(sum(one.size for one in chosen))}", err=True)
