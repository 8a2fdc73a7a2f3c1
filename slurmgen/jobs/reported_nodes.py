"""The bad nodes that jobs reported: read them when a job has ended, and remember them for the next jobs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from slurmgen.errors import ConfigError, RemoteError
from slurmgen.jobs import preflight_reports
from slurmgen.jobs.bad_nodes import DAYS, MOST_EXCLUDED, BadNode, BadNodes, Place, bad_node
from slurmgen.jobs.preflight_reports import BAD_NODE, Findings, Found
from slurmgen.jobs.report import Report
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm import node_lists, sbatch_options

if TYPE_CHECKING:
    from slurmgen.job_spec import JobSpec


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


def if_readable(transport: Transport, reports: Sequence[Report]) -> list[Report]:
    """The same; without it if that cannot be read, as when another connection replaced this one."""
    try:
        return with_bad_nodes(transport, reports)
    except RemoteError:
        return list(reports)


def _failed(report: Report) -> bool:
    """Whether the preflight of a job, or of one of its tasks, ended it."""
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
        if any(node_lists.contains(state.nodes, node) for state in report.states)
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
    return tuple(node for node in BadNodes().current(place) if not node_lists.contains(own, node.node))


def excluding(job: "JobSpec", nodes: Sequence[BadNode]) -> "JobSpec":
    """The job on other nodes than these; of many, it excludes the newest."""
    return job.excluding([f"{node.node}={node.reason}" for node in nodes[:MOST_EXCLUDED]]) if nodes else job


def on_good_nodes(job: "JobSpec", route: Route) -> "JobSpec":
    """The job without the nodes that are remembered as bad; raises as `nodes_to_exclude`."""
    return excluding(job, nodes_to_exclude(job, place_of(route)))


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
