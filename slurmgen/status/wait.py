"""Wait for jobs to end, with one query at a time for all jobs of a site."""

import time
from collections.abc import Callable, Sequence

from msgspec import structs

from slurmgen.errors import AuthenticationFailed, ConnectionBroke, HostKeyError, RemoteError, SlurmgenError
from slurmgen.remote.route import Route
from slurmgen.remote.transport import TimedOut, Transport
from slurmgen.slurm.replies import GONE
from slurmgen.status.job import Connect, Job, group_by_route
from slurmgen.status.query import make_report, query_site, unreached, with_winners
from slurmgen.status.report import Report
from slurmgen.status.slurm import QUERIES_UNTIL_GONE, UNKNOWN, Busy, task_order

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"Seconds between two queries; many users share a controller."
FIRST_QUERIES = 12
"Queries without any reply, in about six minutes, after which waiting is given up."


class Watch:
    """The jobs of one site, and the connection for their queries."""

    def __init__(self, route: Route, jobs: Sequence[Job], connect: Connect) -> None:
        self.waiting = list(jobs)
        self._route, self._connect = route, connect
        self._transport: Transport | None = None
        self._has_replied, self._failures = False, 0
        self._queries: dict[Job, int] = {}
        "How often in a row Slurm did not list a job."
        self._problems: dict[Job, str] = {}
        "Why the state of a job is not known."
        self._last: dict[Job, Report] = {}
        "The last report of each job that Slurm listed, with all its tasks."

    def query(self, warn: Callable[[str], None]) -> list[Report]:
        """Report the jobs that have ended since the last query.

        Raises:
            SlurmgenError: the first query failed, and not because Slurm is too busy to reply or a connection
                broke. Later ones may fail: connections break and controllers restart.
        """
        if not self.waiting:
            return []
        try:
            self._transport = self._transport or self._connect(self._route)
            known = {job: last.states for job, last in self._last.items()}
            reports = query_site(self._transport, self.waiting, known=known)
        except (AuthenticationFailed, HostKeyError):
            raise
        except SlurmgenError as error:
            may_pass = isinstance(error, Busy | TimedOut | ConnectionBroke)
            self._failures += 1
            if not self._has_replied and not (may_pass and self._failures < FIRST_QUERIES):
                return self._recall(error)
            if not isinstance(error, RemoteError):
                raise
            warn(f"{error.fact}; still waiting")
            self.close()
            return []
        self._has_replied = True
        for report in reports:
            if report.state == UNKNOWN and self._problems.get(report.job) != report.error:
                warn(f"job {report.job.id}: {report.error}; still waiting")
            self._problems[report.job] = report.error
        reports = [self._with_forgotten_tasks(report) for report in reports]
        done = [report for report in reports if self._is_complete(report)]
        self.waiting = [report.job for report in reports if report not in done]
        return done

    def close(self) -> None:
        """Close the connection."""
        if self._transport:
            self._transport.close()
        self._transport = None

    def _recall(self, error: SlurmgenError) -> list[Report]:
        """The reports of the ledger, if it has the final states of all jobs; else raise the error."""
        if not all(job.final for job in self.waiting):
            raise error
        jobs, self.waiting = self.waiting, []
        return [unreached(job, error) for job in jobs]

    def _with_forgotten_tasks(self, report: Report) -> Report:
        last, listed = self._last.get(report.job), {state.id for state in report.states}
        if last:
            forgotten = [state for state in last.states if state.ended and state.id not in listed]
            if forgotten:
                states = sorted((*forgotten, *report.states), key=task_order)
                complete = make_report(
                    report.job, states, "", report.why or last.why, report.requeued or last.requeued
                )
                report = structs.replace(complete, bad_nodes={**last.bad_nodes, **report.bad_nodes})
        if report.states:
            self._last[report.job] = report
        return report

    def _is_complete(self, report: Report) -> bool:
        """Whether a job has ended; one that Slurm does not list, only after some queries."""
        if report.state != GONE:
            self._queries.pop(report.job, None)
            return report.ended
        queries = self._queries[report.job] = self._queries.get(report.job, 0) + 1
        return bool(report.error) or queries >= QUERIES_UNTIL_GONE


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
        warn: receives the errors of queries that are repeated.
        timeout: seconds; no limit if None.
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
            sleep(pause if deadline is None else max(0.0, min(pause, deadline - clock())))
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        for watch in watches:
            watch.close()
