"""`slurmgen ssh`: a shell on the login node, in the folder of a job."""

from typing import Any

import click

from slurmgen.cli.options import complete_jobs, connect, find_one, route_options, site_option
from slurmgen.cli.output import Command
from slurmgen.cli.path import folder_of

_SHELL = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'


@click.command(
    "ssh",
    cls=Command,
    examples={"slurmgen ssh last": "Look at the files of the last job"},
)
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@site_option
@route_options
def command(job_id: str, site: str | None, **options: Any) -> int:
    """Open a shell on the login node, in the folder of a job.

    The job may be pending or have ended. ID is a job id, a job name, or `last`. Exits with the exit status of
    the shell. `slurmgen shell` opens one in a running job.
    """
    from slurmgen.remote.local import is_terminal
    from slurmgen.status.slurm import as_logged_in

    job = find_one(job_id, site, **options)
    argv = ["sh", "-c", _SHELL, "slurmgen", folder_of(job)]
    with connect(job.route) as transport:
        return transport.attach(as_logged_in(transport, argv), terminal=is_terminal())
