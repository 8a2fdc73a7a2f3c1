"""`slurmgen preflight`: check nodes of a site by a short job."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.exceptions import Exit

from slurmgen.cli.options import cache_dir, json_option, route_options, site_option
from slurmgen.cli.output import Command, print_json, say
from slurmgen.cli.submit_output import Printer, follow_job, printed, show
from slurmgen.errors import RequestError
from slurmgen.files import PREFLIGHT, bundled
from slurmgen.request.model import NONE, Request
from slurmgen.submit.how import How
from slurmgen.submit.job import ready
from slurmgen.submit.preflight import NodeCheck, named_nodes, preflight_job

if TYPE_CHECKING:
    from slurmgen.cli.job_objects import Preflight
    from slurmgen.ledger.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.status.nodes import Checked, Scope

NAME = "preflight"
_TIME = "00:10:00"
_COMMANDLINE = ParameterSource.COMMANDLINE
_HOW_TO_REPEAT = (
    "Check it beside a node that is not listed (--nodelist NODE,HEALTHY); "
    "checks of GPUs need all GPUs (no --gpus), and gpu-link, gpu-product and gpu-slow need PyTorch "
    "(--container or --python-env). Or clear it: `slurmgen nodes --clear NODE`."
)


@click.command(
    NAME,
    cls=Command,
    examples={
        "slurmgen preflight --site daic --nodes 2": "Check two nodes",
        "slurmgen preflight --nodes 4 --partition accel": "Check four nodes of a partition",
        "slurmgen preflight --nodelist gpu07,gpu08": "Check gpu07 again, beside gpu08, which is healthy",
        "slurmgen preflight --copy": "Copy the program for scripts with --preflight that sbatch runs",
    },
)
@site_option
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Number of nodes; default: 1.")
@click.option(
    "--nodelist", metavar="NODE,...", help="Check these nodes; of those that are healthy, clear the entries."
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    metavar="N",
    help="GPUs of all nodes, 0 to check none; default: all that they have.",
)
@click.option("--gpu-type", metavar="TYPE", help="GPU type, by its name in Slurm.")
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition to submit to.")
@click.option("--qos", metavar="NAME", help="Quality of service (QOS).")
@click.option("--time", default=_TIME, metavar="TIME", help=f"Time limit; default: {_TIME}.")
@click.option("--container", metavar="IMAGE", help="Container image with PyTorch, or none for no container.")
@click.option(
    "--python-env", default=NONE, metavar="ENV", help="Python environment: none, venv:FOLDER or conda:NAME."
)
@click.option("--remote-dir", metavar="FOLDER", help="Folder on the cluster; default: ~/slurmgen.")
@click.option("--dry-run", is_flag=True, help="Print the script, without connecting.")
@click.option("--copy", is_flag=True, help="Copy the program into the current folder, and submit nothing.")
@route_options
@json_option
def command(
    site: str | None,
    nodes: int | None,
    nodelist: str | None,
    remote_dir: str | None,
    dry_run: bool,
    copy: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Check nodes of a site by a short job.

    The job compares its nodes with each other: GPUs, memory, clocks, the shared folder, and the network
    between them. Its log follows, with one line per node and a verdict. docs/preflight.md lists the checks.
    If all nodes are healthy, `slurmgen nodes` no longer lists those that earlier preflights found bad. A slow
    node is found only beside a healthy one, so name one that is not listed too.

    Exits with 1 if a node is bad, or if the job failed for another reason.
    """
    if copy:
        _check_alone("copy", "as_json")
        _copy(Path.cwd() / PREFLIGHT, as_json)
        return
    if nodes and nodelist is not None:
        raise click.UsageError("--nodes and --nodelist exclude each other.")
    route_values = {key: values.pop(key) for key in ("via", "host", "ssh_config", "ssh_client")}
    how = How(**route_values, remote_dir=remote_dir, cache_dir=cache_dir())
    size = {"nodes": nodes or 1} if nodelist is None else named_nodes(nodelist)
    job = preflight_job(site, Request(**values, **size), Path.cwd())
    _run(NodeCheck(job), how, dry_run=dry_run, as_json=as_json)


def _check_alone(name: str, *allowed: str) -> None:
    """Refuse other options beside one, except those that come from the environment."""
    context = click.get_current_context()
    given = [key for key in context.params if context.get_parameter_source(key) is _COMMANDLINE]
    others = [f"--{key.replace('_', '-')}" for key in given if key not in (name, *allowed)]
    if others:
        raise click.UsageError(f"{others[0]} has no effect with --{name}.")


def _copy(folder: Path, as_json: bool) -> None:
    if folder.exists():
        raise RequestError(f"{folder.name} exists already", "Remove it first, or keep it.")
    shutil.copytree(bundled(PREFLIGHT), folder, ignore=shutil.ignore_patterns("__pycache__"))
    say(f"copied the program that checks nodes to {folder.name}/")
    if as_json:
        from slurmgen.cli.job_objects import Copied

        print_json(Copied(folder=folder.name))


def _run(check: NodeCheck, how: How, *, dry_run: bool, as_json: bool) -> None:
    """Submit the job from an empty folder, and show its log until it ends."""
    if dry_run:
        with ready(check, how, Printer(), connects=False) as made:
            show(made.arrays[0], as_json)
        return
    printer = Printer()
    with printed(check, how, printer) as (outcome,):
        route = printer.arrays[0].route
        try:
            follow_job(outcome, route, err=as_json)
        except Exit as end:
            checked = None
            if not end.exit_code:
                checked = _clear_healthy(outcome.record, route, check.scope())
            if as_json and end.exit_code in (0, 1):
                print_json(_result(outcome.record, checked))
            raise


def _result(record: "Record", checked: "Checked | None") -> "Preflight":
    """What --json prints; `checked` is what a job without bad nodes found, else None."""
    from slurmgen.cli.job_objects import Preflight
    from slurmgen.ledger.bad_nodes import BadNodes, Place

    listed = BadNodes().current(Place(record.site, record.via == "twin"))
    return Preflight(
        id=record.id,
        site=record.site,
        healthy=checked is not None,
        bad=[node for node in listed if node.job == record.id],
        cleared=list(checked.cleared) if checked else [],
        by_hand=list(checked.by_hand) if checked else [],
        unseen={node: list(checks) for node, checks in checked.unseen.items()} if checked else {},
    )


def _clear_healthy(record: "Record", route: "Route", scope: "Scope") -> "Checked":
    """Clear the entries of bad nodes that a job found healthy, and name them and those that stay."""
    from slurmgen.status.nodes import clear_healthy
    from slurmgen.text import listed

    checked = clear_healthy(record, route, scope)
    if checked.cleared:
        say(f"healthy, and no longer excluded from new jobs: {listed(checked.cleared)}")
    if checked.by_hand:
        names = listed(checked.by_hand)
        say(f"healthy, but you reported it as bad: {names}; `slurmgen nodes --clear NODE` clears it")
    for node, checks in checked.unseen.items():
        say(f"{node} stays excluded, since this job could not repeat: {listed(checks)}. {_HOW_TO_REPEAT}")
    return checked
