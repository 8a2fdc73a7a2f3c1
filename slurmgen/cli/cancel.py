"""`slurmgen cancel`: end a job."""

from typing import Any

import click

from slurmgen.cli.route_options import find_job, job_options, reach


@click.command()
@job_options
def command(job_id: str, site: str | None, **said: Any) -> None:
    """Cancel a job, and say what became of it."""
    from slurmgen.remote.slurm import cancel, describe, ended, job_states

    job, way, _ = find_job(job_id, site, **said)
    with reach(way) as far:
        states = job_states(far, job)
        if not ended(states):
            cancel(far, job)
            click.echo(f"asked Slurm to cancel job {job}", err=True)
            states = job_states(far, job)
    for line in describe(states, job, way.site):
        click.echo(line)
