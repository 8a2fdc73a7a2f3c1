"""`slurmgen nodes` and `slurmgen preflight`: the bad nodes, and the job that finds them."""

import shutil
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.exceptions import Exit

from slurmgen.cli.job_objects import BadNodeList, Copied, Preflight
from slurmgen.cli.options import cache_dir, json_option, project_dir, route_options, site_option, via_option
from slurmgen.cli.output import Command, columns, print_json, say
from slurmgen.cli.submit_output import Printer, follow_log, printed, show
from slurmgen.errors import RequestError
from slurmgen.files import PREFLIGHT, bundled
from slurmgen.ledger.bad_nodes import BadNode, BadNodes, Place, bad_node, in_one_line, is_node_name
from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route
from slurmgen.request.model import NONE, Request
from slurmgen.sites.profiles import load_site
from slurmgen.status.nodes import Checked, Scope, clear_healthy, days_at
from slurmgen.status.report_text import local_time
from slurmgen.submit.how import How
from slurmgen.submit.job import ready
from slurmgen.submit.preflight import NodeCheck, named_nodes, preflight_job
from slurmgen.text import listed, visible

HEADINGS = ("SITE", "NODE", "SINCE", "UNTIL", "FINDING")
_MIN_DAYS, _MAX_DAYS = 0.001, 3650


@click.command(
    "nodes",
    cls=Command,
    examples={
        "slurmgen nodes": "List the bad nodes of all sites",
        "slurmgen nodes --site daic --add gpu07 --because 'ECC errors'": "Exclude a node from new jobs",
        "slurmgen nodes --site daic --clear gpu07": "Let jobs use it again",
        "slurmgen nodes --site daic --via twin": "List the bad nodes of its twin",
    },
)
@site_option
@via_option
@click.option("--add", "added", multiple=True, metavar="NODE", help="Exclude this node; repeatable.")
@click.option("--because", metavar="TEXT", help="With --add: what is wrong with it.")
@click.option(
    "--days",
    type=click.FloatRange(min=_MIN_DAYS, max=_MAX_DAYS),
    metavar="N",
    help="With --add: for this long; default: bad_node_days of personal.toml, else 7.",
)
@click.option("--clear", "cleared", multiple=True, metavar="NODE", help="Use this node again; repeatable.")
@click.option("--clear-all", is_flag=True, help="Use all nodes again, of the site or of all sites.")
@json_option
def nodes_command(
    site: str | None,
    via: str | None,
    added: tuple[str, ...],
    because: str | None,
    days: float | None,
    cleared: tuple[str, ...],
    clear_all: bool,
    as_json: bool,
) -> None:
    """List the bad nodes that new jobs exclude, add to them, and clear them.

    A node is remembered when the preflight of a job finds it bad, and when `status`, `wait` or
    `submit --follow` then sees the end of that job. `submit` excludes it until its entry expires.
    """
    _check(site, via, added, because, days, bool(cleared or clear_all))
    if cleared and clear_all:
        raise click.UsageError("--clear and --clear-all exclude each other.")
    place = Place(load_site(site, project_dir()).name, via == "twin") if site else None
    if place and added and because:
        _add(place, added, because, days)
    elif cleared or clear_all:
        _clear(place, cleared)
    nodes = BadNodes().current(place)
    if as_json:
        print_json(BadNodeList(nodes=list(nodes)))
    else:
        _print_table(nodes)


def _check(
    site: str | None,
    via: str | None,
    added: tuple[str, ...],
    because: str | None,
    days: float | None,
    clears: bool,
) -> None:
    if added and clears:
        raise click.UsageError("--add and --clear exclude each other.")
    if via and not site:
        raise click.UsageError("--via needs --site.")
    if added and not (site and because and because.strip()):
        raise click.UsageError("--add needs --site and --because.")
    if days is not None and isnan(days):
        raise click.UsageError("--days is not a number.")
    if not added and (because is not None or days is not None):
        raise click.UsageError("--because and --days need --add.")


def _add(place: "Place", names: Sequence[str], because: str, days: float | None) -> None:
    for name in names:
        if not is_node_name(name):
            raise RequestError(f"{name!r} is not the name of a node", "Name each node on its own.")
    finding, lasts = in_one_line(because), days_at(place.site) if days is None else days
    BadNodes().add([bad_node(place, name, finding, days=lasts) for name in names])


def _clear(place: "Place | None", names: Sequence[str]) -> None:
    """Clear some nodes, or all if no name is given."""
    listed = BadNodes().current(place)
    unknown = [name for name in names if name not in {node.node for node in listed}]
    if unknown:
        raise RequestError(
            f"node {unknown[0]} is not listed{f' for {place}' if place else ''}", "See `slurmgen nodes`."
        )
    BadNodes().clear(one for one in BadNodes().reports(place) if not names or one.node in names)


def _print_table(nodes: "Sequence[BadNode]") -> None:
    if not nodes:
        click.echo("no bad node is remembered", err=True)
        return
    for line in columns([HEADINGS, *map(_cells, nodes)]):
        click.echo(line)


def _cells(node: "BadNode") -> tuple[str, ...]:
    minute = len("2026-01-31 12:00")
    finding = f"{node.finding} ({node.source})"
    cells = (str(node.place), node.node, local_time(node.since)[:minute], local_time(node.until)[:minute])
    return tuple(map(visible, (*cells, finding)))


_TIME = "00:10:00"
_COMMANDLINE = ParameterSource.COMMANDLINE
_HOW_TO_REPEAT = (
    "Check it beside a node that is not listed (--nodelist NODE,HEALTHY); "
    "checks of GPUs need all GPUs (no --gpus), and gpu-link, gpu-product and gpu-slow need PyTorch "
    "(--container or --python-env). Or clear it: `slurmgen nodes --clear NODE`."
)


@click.command(
    "preflight",
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
def preflight_command(
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
        print_json(Copied(folder=folder.name))


def _run(check: NodeCheck, how: How, *, dry_run: bool, as_json: bool) -> None:
    """Submit the job from an empty folder, and show its log until it ends."""
    if dry_run:
        with ready(check, how, Printer(), connects=False) as ((prepared, *_), _login):
            show(prepared, as_json)
        return
    printer = Printer()
    with printed(check, how, printer) as (outcome,):
        route = printer.arrays[0].route
        try:
            follow_log(outcome.transport, outcome.record, route, err=as_json)
        except Exit as end:
            checked = None
            if not end.exit_code:
                checked = _clear_healthy(outcome.record, route, check.scope())
            if as_json and end.exit_code in (0, 1):
                print_json(_result(outcome.record, checked))
            raise


def _result(record: "Record", checked: "Checked | None") -> "Preflight":
    """What --json prints; `checked` is what a job without bad nodes found, else None."""
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
    checked = clear_healthy(record, route, scope)
    if checked.cleared:
        say(f"healthy, and no longer excluded from new jobs: {listed(checked.cleared)}")
    if checked.by_hand:
        names = listed(checked.by_hand)
        say(f"healthy, but you reported it as bad: {names}; `slurmgen nodes --clear NODE` clears it")
    for node, checks in checked.unseen.items():
        say(f"{node} stays excluded, since this job could not repeat: {listed(checks)}. {_HOW_TO_REPEAT}")
    return checked
