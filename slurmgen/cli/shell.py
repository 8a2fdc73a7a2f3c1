"""`slurmgen shell`: a shell in the allocation of a running job."""

import sys
from typing import Any

import click
from msgspec import structs

from slurmgen.cli.options import complete_jobs, connect, find_one, route_options, site_option
from slurmgen.cli.output import Command, say
from slurmgen.errors import ConfigError, RequestError
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.request import recorded_request, spec_again
from slurmgen.live.session import node_of, running, shell_argv
from slurmgen.plan import Plan
from slurmgen.remote.local import is_terminal
from slurmgen.status.slurm import as_logged_in


@click.command(
    "shell",
    cls=Command,
    examples={
        "slurmgen shell last": "Open a shell on the first node of the last job",
        "slurmgen shell last --node n2 -- nvidia-smi": "Run one command on another node",
    },
)
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@click.argument("words", metavar="[-- CMD]", nargs=-1, type=click.UNPROCESSED)
@site_option
@route_options
@click.option("--node", metavar="NAME", help="Node of the job; default: its first.")
@click.option("--plain", is_flag=True, help="Leave out the job's container and environment.")
def command(
    job_id: str, words: tuple[str, ...], site: str | None, node: str | None, plain: bool, **options: Any
) -> int:
    """Open a shell in a running job, in its container and environment.

    It starts in the run folder; with CMD, only that command runs. ID is a job id, ID_TASK in an array, a job
    name, or `last`. The shell shares the job's CPUs, memory and GPUs, and ends with the job. Exits with the
    exit status of the shell or of CMD.
    """
    # As with `ssh HOST`, and `ssh HOST CMD | less`.
    terminal = is_terminal() and (not words or bool(sys.stdout and sys.stdout.isatty()))
    job = find_one(job_id, site, **options)
    with connect(job.route) as transport:
        allocation = running(transport, job.id)
        argv = shell_argv(
            allocation,
            node_of(transport, allocation, node),
            words,
            folder=job.record.folder if job.record else None,
            plan=None if plain else _plan(job.record),
            terminal=terminal,
        )
        return transport.attach(as_logged_in(transport, argv), terminal=terminal)


def _plan(record: Record | None) -> Plan | None:
    """The plan of a job from its recorded request; None, with a message, if there is none."""
    if record is None:
        say("the job is not in your records, so this is the environment of the login node")
        return None
    try:
        kept = recorded_request(record)
        if kept.secrets:
            say(f"these variables of the job are not set here: {', '.join(kept.secrets)}")
        return spec_again(structs.replace(kept, secrets=())).plan()
    except (RequestError, ConfigError) as error:
        say(f"the job's container and environment are not known: {error.fact}")
        return None
