"""The entries of bad nodes that a later check of these nodes clears."""

from collections.abc import Iterable

from msgspec import Struct

from slurmgen.jobs.bad_nodes import BadNode, BadNodes
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.reported_nodes import place_of
from slurmgen.remote.route import Route
from slurmgen.slurm import node_lists

OF_ONE_NODE = frozenset({"check", "gpu-count", "gpu-ecc", "gpu-memory", "gpu-product", "peer", "product"})
"The checks that need no other node; each other one may compare nodes, and sees nothing on one alone."
_OF_GPUS = "gpu-"
"What the names of checks begin with that need the GPUs of a node."
_OF_TORCH = frozenset({"gpu-link", "gpu-product", "gpu-slow"})
"The checks that need PyTorch too."


class Scope(Struct, frozen=True, kw_only=True):
    """What a job that checks nodes could see."""

    nodes: int
    "How many it had."
    all_gpus: bool
    "Whether it requested all GPUs of its nodes."
    with_torch: bool
    "Whether it had an environment that is expected to contain PyTorch."


class Checked(Struct, frozen=True):
    """The nodes of a healthy job that were bad before."""

    cleared: tuple[str, ...] = ()
    "Those that new jobs use again."
    by_hand: tuple[str, ...] = ()
    "Those that the user reported, and that stay excluded."
    unseen: dict[str, tuple[str, ...]] = {}
    "Those that stay excluded because of checks that the job could not repeat, with these checks."


def clear_healthy(record: Record, route: Route, scope: Scope) -> Checked:
    """Clear the reports of jobs about the nodes of a job that only checked them, and that has completed."""
    reports = _reports_of_nodes(record, route)
    has_reference = scope.nodes > len({one.node for one in reports})
    unseen = {one: _unseen(one, scope, has_reference=has_reference) for one in reports if one.job}
    BadNodes().clear(one for one, checks in unseen.items() if not checks)
    by_hand = _names(one for one in reports if not one.job)
    stay: dict[str, tuple[str, ...]] = {}
    for one, checks in unseen.items():
        if checks:
            stay[one.node] = tuple(dict.fromkeys((*stay.get(one.node, ()), *checks)))
    cleared = tuple(name for name in _names(unseen) if name not in {*by_hand, *stay})
    return Checked(cleared, by_hand, stay)


def _reports_of_nodes(record: Record, route: Route) -> list[BadNode]:
    now = Ledger().of_key(record.key) or next(iter(Ledger().find(record.id, record.site)), record)
    states = Job.of(now, route).final
    return [
        one
        for one in BadNodes().reports(place_of(route))
        if any(state.state == "COMPLETED" and node_lists.contains(state.nodes, one.node) for state in states)
    ]


def _unseen(report: BadNode, scope: Scope, *, has_reference: bool) -> tuple[str, ...]:
    """The checks of a report that a job did not repeat."""
    return tuple(
        check
        for check in report.checks or ("unknown",)
        if not (has_reference or check in OF_ONE_NODE)
        or (check.startswith(_OF_GPUS) and not scope.all_gpus)
        or (check in _OF_TORCH and not scope.with_torch)
    )


def _names(reports: Iterable[BadNode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.node for one in reports))
