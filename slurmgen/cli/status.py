"""`slurmgen status`: what became of a job, or which jobs were submitted."""

from typing import Any

import click

from slurmgen.cli.route_options import check_job_id, find_job, reach, route_options
from slurmgen.cli.site_option import site_option


@click.command()
@click.argument("job_id", metavar="[ID]", callback=check_job_id, required=False)
@site_option
@route_options
def command(job_id: str | None, site: str | None, **said: Any) -> None:
    """Show what became of a submitted job; without ID, of all.

    Without ID it lists the jobs that were submitted from here.
    """
    if job_id is None:
        _list(site)
        return
    from slurmgen.remote.slurm import describe, job_states

    job, way, _ = find_job(job_id, site, **said)
    with reach(way) as far:
        states = job_states(far, job)
    for line in describe(states, job, way.site):
        click.echo(line)


def _list(site: str | None) -> None:
    """Print the ledger, the oldest job first."""
    from slurmgen.ledger import Ledger
    from slurmgen.slurm.shell import visible

    records = [one for one in Ledger().all() if site in (None, one.site)]
    if not records:
        click.echo("no job was submitted from here yet", err=True)
        return
    rows = [("ID", "SITE", "NAME", "SUBMITTED", "FOLDER")]
    rows += [(one.id, one.site, one.name, one.submitted, one.folder) for one in records]
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
