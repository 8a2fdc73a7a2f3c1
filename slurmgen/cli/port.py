"""`slurmgen port`: a port of a running job on this machine."""

import re
import time
from typing import Any

import click

from slurmgen.cli.options import complete_jobs, connect, find_one, route_options, site_option
from slurmgen.cli.output import Command, say
from slurmgen.errors import RequestError

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
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@click.argument("ports", metavar="[LOCAL:]PORT", callback=_ports)
@site_option
@route_options
@click.option("--node", metavar="NAME", help="Node of the job; default: its first.")
def command(job_id: str, ports: tuple[int, int], site: str | None, node: str | None, **options: Any) -> int:
    """Forward a local port to a program in a running job, such as TensorBoard.

    ID is a job id, ID_TASK in an array, a job name, or `last`. The local port is on loopback only; LOCAL is
    PORT by default, and 0 for any free one. Ends on ^C, or with the job.
    """
    from slurmgen.live.session import LOOPBACK, Forwarding, find_dial, node_of, running

    job, (port, local) = find_one(job_id, site, **options), ports
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
