"""`slurmgen path`: the folder of a job on the cluster."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.options import complete_jobs, find_one, route_options, site_option
from slurmgen.cli.output import Command
from slurmgen.errors import RequestError
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.status.job import Job


@click.command(
    "path",
    cls=Command,
    examples={
        "slurmgen path last": "Print the folder of the last job, as HOST:PATH",
        "slurmgen path train --site daic": "That of the last job called train at a site",
    },
)
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@site_option
@route_options
def command(job_id: str, site: str | None, **options: Any) -> None:
    """Print the folder of a job on the cluster.

    The form is HOST:PATH, which scp and rsync take, and PATH for a job of this machine. It connects to no
    host. ID is a job id, a job name, or `last`.
    """
    job = find_one(job_id, site, **options)
    host = f"{job.route.host}:" if job.route.via == "ssh" else ""
    click.echo(visible(f"{host}{folder_of(job)}"))


def folder_of(job: "Job") -> str:
    """The run folder of a job.

    Raises:
        RequestError: the job is not in the records of this machine.
    """
    if job.record is None:
        raise RequestError(
            f"the folder of job {job.id} is not known: the job is not in your records",
            f"`scontrol show job {job.id}` on the cluster shows where it runs.",
        )
    return job.record.folder
