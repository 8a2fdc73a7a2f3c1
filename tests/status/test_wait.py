"""Waiting without a cluster: when it queries, which errors it survives, and when it stops."""

from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from slurmgen.errors import AuthenticationFailed, CommandFailed, ConnectionFailed, RemoteError
from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route
from slurmgen.remote.transport import TimedOut
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status import wait as waiting
from slurmgen.status.job import Job
from slurmgen.status.preflight_reports import Finding
from slurmgen.status.query import make_report
from slurmgen.status.report import Report
from slurmgen.status.segments import Requeued
from slurmgen.status.slurm import QUERIES_UNTIL_GONE, Busy
from slurmgen.status.wait import FIRST_PAUSE, LONGEST_PAUSE, wait

ROUTE = Route(site="daic", via="local")
RECORD = Record(id="12", site="daic", via="local", name="n", folder="/f", output="o", submitted="2020-01-01")
JOB = Job(JobId("12"), ROUTE, RECORD)


class Connection:
    def close(self) -> None:
        pass


class Story:
    """The replies to queries: the state of the job, nothing if it is gone, or an error."""

    def __init__(self, *replies: "str | RemoteError | tuple[JobState, ...]") -> None:
        self.replies = list(replies)
        self.read: list[dict[str, Any]] = []
        "What each query finds besides the states."
        self.pauses: list[float] = []
        self.logins = 0
        self.warnings: list[str] = []
        self.now = 0.0

    def query(self, _transport: object, jobs: list[Job], **_known: object) -> list[Report]:
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, RemoteError):
            raise reply
        states = reply if isinstance(reply, tuple) else (JobState(id="12", state=reply),) if reply else ()
        read = self.read.pop(0) if self.read else {}
        return [structs.replace(make_report(job, states), **read) for job in jobs]

    def connect(self, _route: Route) -> Connection:
        self.logins += 1
        return Connection()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> list[str]:
        return [report.state for report in self.reports(timeout)]

    def reports(self, timeout: float | None = None) -> list[Report]:
        ended: list[Report] = []
        with patch.object(waiting, "query_site", self.query):
            wait(
                [JOB],
                self.connect,  # type: ignore[arg-type]
                self.warnings.append,
                ended.append,
                timeout,
                self.sleep,
                self.clock,
            )
        return ended


def test_wait_returns_when_the_job_ends_after_one_login() -> None:
    story = Story("PENDING", "RUNNING", "COMPLETED")
    assert story.wait() == ["COMPLETED"]
    assert story.logins == 1


def test_pauses_grow_up_to_a_minute() -> None:
    story = Story(*["RUNNING"] * 20, "COMPLETED")
    story.wait()
    assert story.pauses[0] == FIRST_PAUSE
    assert story.pauses == sorted(story.pauses)
    assert story.pauses[-1] == LONGEST_PAUSE


def test_a_connection_that_breaks_after_the_first_query_is_opened_again() -> None:
    story = Story("RUNNING", ConnectionFailed("it broke"), CommandFailed("no controller"), "FAILED")
    assert story.wait() == ["FAILED"]
    assert story.logins == 3
    assert story.warnings == ["it broke; still waiting", "no controller; still waiting"]


def test_a_host_that_is_not_reached_at_first_is_an_error() -> None:
    with pytest.raises(ConnectionFailed):
        Story(ConnectionFailed("no")).wait()


@pytest.mark.parametrize("error", [Busy("squeue: RPC rate limit exceeded"), TimedOut("no reply")])
def test_a_query_that_slurm_is_too_busy_for_is_repeated_also_the_first(error: RemoteError) -> None:
    story = Story(error, error, "RUNNING", "COMPLETED")
    assert story.wait() == ["COMPLETED"]
    assert story.warnings == [f"{error.fact}; still waiting"] * 2
    with pytest.raises(type(error)):
        Story(error).wait()


def test_a_failed_authentication_is_not_repeated() -> None:
    with pytest.raises(AuthenticationFailed):
        Story("RUNNING", AuthenticationFailed("no")).wait()


@pytest.mark.parametrize("before", [["RUNNING"], []], ids=["listed before", "never listed"])
def test_a_job_that_slurm_does_not_list_is_gone_only_after_several_queries(before: list[str]) -> None:
    assert Story(*before, *[""] * (QUERIES_UNTIL_GONE - 1), "COMPLETED").wait() == ["COMPLETED"]
    assert Story(*before, "").wait() == ["GONE"]


def test_a_job_that_is_requeued_is_waited_for() -> None:
    assert Story("RUNNING", "REQUEUED", "PENDING", "COMPLETED").wait() == ["COMPLETED"]


def test_wait_stops_at_its_timeout() -> None:
    story = Story("RUNNING")
    assert story.wait(timeout=30) == []
    assert sum(story.pauses) == 30


RUNS = JobState(id="12_1", state="RUNNING")
GOOD = JobState(id="12_1", state="COMPLETED", unaccounted=True)


def test_a_failed_task_counts_even_if_slurm_forgets_it_before_the_array_ends() -> None:
    failed = JobState(id="12_0", state="FAILED", exit_code="7:0", unaccounted=True)
    (report,) = Story((failed, RUNS), (RUNS,), (GOOD,)).reports()
    assert (report.state, report.code) == ("FAILED", 7)
    assert [state.id for state in report.states] == ["12_0", "12_1"]


def test_what_was_read_of_a_forgotten_task_is_kept() -> None:
    failed = JobState(id="12_0", state="FAILED", exit_code="79:0", unaccounted=True)
    story = Story((failed, RUNS), (GOOD,))
    slow, nan = Finding("slow", ("slow",)), Finding("NaN", ("product",))
    requeued = Requeued(runs=2, step=5, idle=0, held=False)
    story.read = [{"bad_nodes": {"n1": slow}, "requeued": requeued}, {"bad_nodes": {"n2": nan}}]
    (report,) = story.reports()
    assert report.bad_nodes == {"n1": slow, "n2": nan}
    assert report.requeued == requeued


def test_an_ended_job_that_slurm_forgets_between_two_queries_is_not_gone() -> None:
    assert Story("RUNNING", "COMPLETED", "").wait() == ["COMPLETED"]
