"""Which nodes of a job failed, and which are healthy."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from slurmgen.errors import ConfigError
from slurmgen.ledger.bad_nodes import DAYS, MOST_EXCLUDED, BadNode, BadNodes, Place, bad_node
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm import sbatch_options, units
from slurmgen.status import preflight_reports
from slurmgen.status.job import Job
from slurmgen.status.preflight_reports import BAD_NODE, Findings, Found
from slurmgen.status.report import Report

if TYPE_CHECKING:
    from slurmgen.job_spec import JobSpec

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
        if any(
            state.state == "COMPLETED" and units.node_list_contains(state.nodes, one.node) for state in states
        )
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


def with_bad_nodes(transport: Transport, reports: Sequence[Report]) -> list[Report]:
    """The reports, with what preflights found against nodes; one command reads all.

    Raises:
        RemoteError: it cannot be read.
    """
    folders = {
        report.job: report.job.record.folder
        for report in reports
        if report.job.record and (_failed(report) or report.job.record.retries)
    }
    if not folders:
        return list(reports)
    found = dict(zip(folders, preflight_reports.read(transport, list(folders.values())), strict=True))
    return [_completed(report, found.get(report.job, Found())) for report in reports]


def _failed(report: Report) -> bool:
    return any(
        state.state == "FAILED" and state.status_and_signal == (BAD_NODE, 0) for state in report.states
    )


def _completed(report: Report, reported: Found) -> Report:
    found = Found(_of_job(report, reported.bad), _of_job(report, reported.busy))
    cause = preflight_reports.why(found) if _failed(report) else None
    return structs.replace(report, bad_nodes=found.bad, why=cause or report.why)


def _of_job(report: Report, found: Findings) -> Findings:
    """The findings about nodes of the job itself.

    Of a job that left bad nodes, Slurm lists those of its last run only; then all are kept.
    """
    if report.job.record and report.job.record.retries:
        return found
    return {
        node: finding
        for node, finding in found.items()
        if any(units.node_list_contains(state.nodes, node) for state in report.states)
    }


def remember(reports: Iterable[Report]) -> None:
    """Remember the bad nodes that jobs reported, so that new jobs exclude them."""
    nodes = [node for report in reports for node in _bad_nodes(report)]
    if nodes:
        with suppress(ConfigError):  # `status` shows them in any case
            BadNodes().add(nodes)


def _bad_nodes(report: Report) -> Iterator[BadNode]:
    place, job = place_of(report.job.route), str(report.job.id)
    days = days_at(place.site) if report.bad_nodes else DAYS
    for node, finding in report.bad_nodes.items():
        yield bad_node(place, node, finding.text, job, checks=finding.checks, days=days)


def nodes_to_exclude(job: "JobSpec", place: Place) -> tuple[BadNode, ...]:
    """The remembered bad nodes that a job does not exclude yet; none if it names its nodes itself.

    Raises:
        ConfigError: the file of bad nodes cannot be used.
    """
    given = sbatch_options.given(job.request.sbatch)
    if not {"nodelist", "nodefile"}.isdisjoint(given):
        return ()
    named = (text.partition("=")[0] for text in job.request.exclude or ())
    own = ",".join(filter(None, (str(given.get("exclude") or ""), *named)))
    return tuple(node for node in BadNodes().current(place) if not units.node_list_contains(own, node.node))


def excluding(job: "JobSpec", nodes: Sequence[BadNode]) -> "JobSpec":
    """The job on other nodes than these; of many, it excludes the newest."""
    return job.excluding([f"{node.node}={node.reason}" for node in nodes[:MOST_EXCLUDED]]) if nodes else job


def on_good_nodes(
    job: "JobSpec", place: Place, notify: Callable[[Sequence[BadNode]], None] = lambda _: None
) -> "JobSpec":
    """The job without the nodes that are remembered as bad; raises as `nodes_to_exclude`.

    Args:
        notify: receives these nodes, if there are some.
    """
    nodes = nodes_to_exclude(job, place)
    if nodes:
        notify(nodes)
    return excluding(job, nodes)


def place_of(route: Route) -> Place:
    """Whose nodes the jobs of a route run on."""
    return Place(route.site, route.via == "twin")


def days_at(site: str) -> float:
    """Days for which a bad node of a site is excluded.

    Raises:
        ConfigError: personal.toml is wrong.
    """
    from slurmgen.config.user import load_personal  # 13 ms, and each query imports this module

    days = load_personal(site).bad_node_days
    return DAYS if days is None else days
