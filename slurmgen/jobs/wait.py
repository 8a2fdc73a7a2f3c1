"""Wait for jobs to end, with one query at a time for all jobs of a site."""

import time
from collections.abc import Callable, Sequence

from msgspec import structs

from slurmgen.errors import AuthenticationFailed, HostKeyError, RemoteError
from slurmgen.jobs.final_states import FINAL
from slurmgen.jobs.job import Connect, Job, group_by_route
from slurmgen.jobs.lost_races import with_winners
from slurmgen.jobs.report import Report
from slurmgen.jobs.slurm_client import GONE, task_order
from slurmgen.jobs.status import as_run, make_report, query_site, unreached
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"Seconds between two queries; many users share a controller."
QUERIES_UNTIL_GONE = 4
"Queries after which a job that Slurm listed before, and does not list now, is reported as gone."
QUERIES_FOR_USAGE = 2
"Queries for the usage of a job that has ended."
PAUSE_FOR_USAGE = 0.5
"Seconds until a job that has ended is queried once more."


class Watch:
    """The jobs of one site, and the connection for their queries."""

    def __init__(self, route: Route, jobs: Sequence[Job], connect: Connect) -> None:
        self.waiting = list(jobs)
        self._route, self._connect = route, connect
        self._transport: Transport | None = None
        self._has_replied = False
        self._queries: dict[Job, int] = {}
        "How often a job was queried since it ended."
        self._last: dict[Job, Report] = {}
        "The last report of each job that Slurm listed, with all its tasks."

    def query(self, warn: Callable[[str], None]) -> list[Report]:
        """Report the jobs that have ended since the last query.

        Raises:
            RemoteError: the first query failed. Later ones may: connections break and controllers restart.
        """
        if not self.waiting:
            return []
        try:
            self._transport = self._transport or self._connect(self._route)
            reports = query_site(self._transport, self.waiting)
        except (AuthenticationFailed, HostKeyError):
            raise
        except RemoteError as error:
            if not self._has_replied:
                return self._recall(error)
            warn(f"{error.fact}; still waiting")
            self.close()
            return []
        self._has_replied = True
        reports = [self._with_forgotten_tasks(report) for report in reports]
        done = [report for report in reports if self._is_complete(report)]
        self.waiting = [report.job for report in reports if report not in done]
        return done

    @property
    def waits_for_usage(self) -> bool:
        """Whether a job has ended, and its report is not complete yet."""
        return any(job in self._queries for job in self.waiting)

    def close(self) -> None:
        """Close the connection."""
        if self._transport:
            self._transport.close()
        self._transport = None

    def _recall(self, error: RemoteError) -> list[Report]:
        """The reports of the ledger, if it has the final states of all jobs; else raise the error."""
        if not all(job.final for job in self.waiting):
            raise error
        jobs, self.waiting = self.waiting, []
        return [unreached(job, error) for job in jobs]

    def _with_forgotten_tasks(self, report: Report) -> Report:
        """The report with the tasks that had ended before, and that Slurm has forgotten since."""
        last, listed = self._last.get(report.job), {state.id for state in report.states}
        if last:
            forgotten = [state for state in last.states if state.ended and state.id not in listed]
            if forgotten:
                states = sorted((*forgotten, *report.states), key=task_order)
                complete = make_report(report.job, states, reason=report.why or last.why)
                report = structs.replace(
                    complete,
                    bad_nodes={**last.bad_nodes, **report.bad_nodes},
                    requeued=report.requeued or last.requeued,
                )
                report = as_run(report)
        if report.states:
            self._last[report.job] = report
        return report

    def _is_complete(self, report: Report) -> bool:
        """Whether a job has ended and no more will be known of it; the database lags a little behind."""
        if not report.ended:
            self._queries.pop(report.job, None)
            return False
        queries = self._queries[report.job] = self._queries.get(report.job, 0) + 1
        if report.state == GONE:
            return report.job not in self._last or queries >= QUERIES_UNTIL_GONE
        no_usage = all(state.unaccounted and state.state in FINAL for state in report.states)
        is_known = no_usage or bool(report.remembered) or report.usage is not None
        return is_known or queries >= QUERIES_FOR_USAGE


def wait(
    jobs: Sequence[Job],
    connect: Connect,
    warn: Callable[[str], None],
    on_end: Callable[[Report], None],
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[Job]:
    """Wait until jobs have ended, and return those that have not at the timeout.

    Args:
        jobs: the jobs.
        connect: opens a connection to a site.
        warn: receives the errors of queries that are repeated.
        on_end: receives the report of each job when it ends.
        timeout: seconds; no limit if None.
        sleep: pauses.
        clock: monotonic time in seconds.
    """
    watches = [Watch(route, group, connect) for route, group in group_by_route(jobs).items()]
    deadline, pause = clock() + timeout if timeout is not None else None, FIRST_PAUSE
    try:
        while True:
            done = [report for watch in watches for report in watch.query(warn)]
            for report in with_winners(done):
                on_end(report)
            left = [job for watch in watches for job in watch.waiting]
            if not left or (deadline is not None and clock() >= deadline):
                return left
            if done:
                pause = FIRST_PAUSE
            if any(watch.waits_for_usage for watch in watches):
                pause = PAUSE_FOR_USAGE
            sleep(pause if deadline is None else max(0.0, min(pause, deadline - clock())))
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        for watch in watches:
            watch.close()
