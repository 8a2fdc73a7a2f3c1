"""`slurmgen nodes`: list the bad nodes that new jobs exclude, add to them, and clear them."""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

import click

from slurmgen.cli.options import json_option, project_dir, site_option, via_option
from slurmgen.cli.output import Command, print_json
from slurmgen.errors import RequestError
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.ledger.bad_nodes import BadNode, Place

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
def command(
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
    from slurmgen.ledger.bad_nodes import BadNodes

    _check(site, via, added, because, days, bool(cleared or clear_all))
    if cleared and clear_all:
        raise click.UsageError("--clear and --clear-all exclude each other.")
    place = _place(site, via)
    if place and added and because:
        _add(place, added, because, days)
    elif cleared or clear_all:
        _clear(place, cleared)
    nodes = BadNodes().current(place)
    if as_json:
        from slurmgen.cli.job_objects import BadNodeList

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


def _place(site: str | None, via: str | None) -> "Place | None":
    """The site or its twin; None for all."""
    from slurmgen.ledger.bad_nodes import Place
    from slurmgen.sites.profiles import load_site

    return Place(load_site(site, project_dir()).name, via == "twin") if site else None


def _add(place: "Place", names: Sequence[str], because: str, days: float | None) -> None:
    from slurmgen.ledger.bad_nodes import BadNodes, bad_node, in_one_line, is_node_name
    from slurmgen.status.nodes import days_at

    for name in names:
        if not is_node_name(name):
            raise RequestError(f"{name!r} is not the name of a node", "Name each node on its own.")
    finding, lasts = in_one_line(because), days_at(place.site) if days is None else days
    BadNodes().add([bad_node(place, name, finding, days=lasts) for name in names])


def _clear(place: "Place | None", names: Sequence[str]) -> None:
    """Clear some nodes, or all if no name is given."""
    from slurmgen.ledger.bad_nodes import BadNodes

    listed = BadNodes().current(place)
    unknown = [name for name in names if name not in {node.node for node in listed}]
    if unknown:
        raise RequestError(
            f"node {unknown[0]} is not listed{f' for {place}' if place else ''}", "See `slurmgen nodes`."
        )
    BadNodes().clear(one for one in BadNodes().reports(place) if not names or one.node in names)


def _print_table(nodes: "Sequence[BadNode]") -> None:
    rows = [HEADINGS, *map(_cells, nodes)]
    if not nodes:
        click.echo("no bad node is remembered", err=True)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _cells(node: "BadNode") -> tuple[str, ...]:
    from slurmgen.status.report_text import local_time

    minute = len("2026-01-31 12:00")
    finding = f"{node.finding} ({node.source})"
    cells = (str(node.place), node.node, local_time(node.since)[:minute], local_time(node.until)[:minute])
    return tuple(map(visible, (*cells, finding)))
