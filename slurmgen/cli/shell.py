"""The commands on a running job and its login node: a shell, a port, its folder."""

import re
import sys
import time

import click
from msgspec import structs

from slurmgen.cli.options import connect, job_options
from slurmgen.cli.output import Command, say
from slurmgen.errors import ConfigError, RequestError
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.request import recorded_request, spec_again
from slurmgen.live.session import LOOPBACK, Forwarding, find_dial, node_of, running, shell_argv
from slurmgen.plan import Plan
from slurmgen.remote.local import is_terminal
from slurmgen.status.job import Job
from slurmgen.status.slurm import as_logged_in
from slurmgen.text import visible


@click.command(
    "shell",
    cls=Command,
    examples={
        "slurmgen shell last": "Open a shell on the first node of the last job",
        "slurmgen shell last --node n2 -- nvidia-smi": "Run one command on another node",
    },
)
@job_options
@click.argument("words", metavar="[-- CMD]", nargs=-1, type=click.UNPROCESSED)
@click.option("--node", metavar="NAME", help="Node of the job; default: its first.")
@click.option("--plain", is_flag=True, help="Leave out the job's container and environment.")
def shell_command(
    job: Job,
    words: tuple[str, ...],
    node: str | None,
    plain: bool,
) -> int:
    """Open a shell in a running job, in its container and environment.

    It starts in the run folder; with CMD, only that command runs. ID is a job id, ID_TASK in an array, a job
    name, or `last`. The shell shares the job's CPUs, memory and GPUs, and ends with the job. Exits with the
    exit status of the shell or of CMD.
    """
    # As with `ssh HOST`, and `ssh HOST CMD | less`.
    terminal = is_terminal() and (not words or bool(sys.stdout and sys.stdout.isatty()))
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


_SHELL = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'


@click.command(
    "ssh",
    cls=Command,
    examples={"slurmgen ssh last": "Look at the files of the last job"},
)
@job_options
def ssh_command(job: Job) -> int:
    """Open a shell on the login node, in the folder of a job.

    The job may be pending or have ended. ID is a job id, a job name, or `last`. Exits with the exit status of
    the shell. `slurmgen shell` opens one in a running job.
    """
    argv = ["sh", "-c", _SHELL, "slurmgen", folder_of(job)]
    with connect(job.route) as transport:
        return transport.attach(as_logged_in(transport, argv), terminal=is_terminal())


@click.command(
    "path",
    cls=Command,
    examples={
        "slurmgen path last": "Print the folder of the last job, as HOST:PATH",
        "slurmgen path train --site daic": "That of the last job called train at a site",
    },
)
@job_options
def path_command(job: Job) -> None:
    """Print the folder of a job on the cluster.

    The form is HOST:PATH, which scp and rsync take, and PATH for a job of this machine. It connects to no
    host. ID is a job id, a job name, or `last`.
    """
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


POLL = 30.0
"Seconds between two checks that the job still runs."
_MOST = 65535


def _ports(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[int, int]:
    """The port of the job, and the local one."""
    match = re.fullmatch(r"(?:([0-9]{1,5}):)?([0-9]{1,5})", text, re.ASCII)
    port, local = (int(match[2]), int(match[1] or match[2])) if match else (0, 0)
    if not (0 < port <= _MOST and local <= _MOST):
        raise click.BadParameter(f"{text!r} is not PORT or LOCAL:PORT.")
    return port, local


@click.command(
    "port",
    cls=Command,
    examples={
        "slurmgen port last 6006": "Open TensorBoard of the last job at http://127.0.0.1:6006",
        "slurmgen port last 18888:8888 --node n2": "Use another local port, and another node",
    },
)
@job_options
@click.argument("ports", metavar="[LOCAL:]PORT", callback=_ports)
@click.option("--node", metavar="NAME", help="Node of the job; default: its first.")
def port_command(
    job: Job,
    ports: tuple[int, int],
    node: str | None,
) -> int:
    """Forward a local port to a program in a running job, such as TensorBoard.

    ID is a job id, ID_TASK in an array, a job name, or `last`. The local port is on loopback only; LOCAL is
    PORT by default, and 0 for any free one. Ends on ^C, or with the job.
    """
    port, local = ports
    with connect(job.route) as transport:
        allocation = running(transport, job.id)
        name = node_of(transport, allocation, node)
        dial = find_dial(transport, allocation, name, port, say)
        with Forwarding(local, dial, say) as forwarding:
            click.echo(f"http://{LOOPBACK}:{forwarding.port}")
            say(f"forwards to port {port} of {name} until ^C, or until job {job.id} ends")
            while True:
                time.sleep(POLL)
                try:
                    running(transport, job.id)
                except RequestError as error:
                    say(error.fact)
                    return 0
