"""Waiting without a cluster: when it asks, what it outlives, and when it stops."""

from unittest.mock import patch

import pytest

from slurmgen.errors import AuthenticationFailed, CommandFailed, ConnectionFailed, RemoteError
from slurmgen.jobs import wait as waiting
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.report import report
from slurmgen.jobs.status import Answer, Named
from slurmgen.jobs.wait import FIRST_PAUSE, LINGER, LONGEST_PAUSE, wait
from slurmgen.remote.route import Route
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

WAY = Route(site="daic", via="local")
RECORD = Record(id="12", site="daic", via="local", name="n", folder="/f", output="o", submitted="2020-01-01")
JOB = Named(JobId("12"), WAY, RECORD)


class Far:
    def close(self) -> None:
        pass


class Story:
    """What each look sees: the state of the job, nothing if it is gone, or an error."""

    def __init__(self, *looks: "str | RemoteError | tuple[JobState, ...]") -> None:
        self.looks = list(looks)
        self.pauses: list[float] = []
        self.logins = 0
        self.told: list[str] = []
        self.now = 0.0

    def answers(self, _far: object, jobs: list[Named]) -> list[Answer]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, RemoteError):
            raise look
        states = look if isinstance(look, tuple) else (JobState(id="12", state=look),) if look else ()
        return [Answer(one, report(one.job, states, "daic", "local"), states) for one in jobs]

    def reach(self, _way: Route) -> Far:
        self.logins += 1
        return Far()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> list[str]:
        return [one.report.state for one in self.answered(timeout)]

    def answered(self, timeout: float | None = None) -> list[Answer]:
        ended: list[Answer] = []
        with patch.object(waiting, "answers_of", self.answers):
            wait([JOB], self.reach, self.told.append, ended.append, timeout, self.sleep, self.clock)  # type: ignore[arg-type]
        return ended


def test_it_ends_with_the_job_over_one_login() -> None:
    story = Story("PENDING", "RUNNING", "COMPLETED")
    assert story.wait() == ["COMPLETED"]
    assert story.logins == 1


def test_pauses_grow_up_to_a_minute() -> None:
    story = Story(*["RUNNING"] * 20, "COMPLETED")
    story.wait()
    *pauses, last = story.pauses
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    # The job has ended, and what it used may come any moment.
    assert last == LINGER


def test_a_link_that_breaks_later_is_made_anew() -> None:
    story = Story("RUNNING", ConnectionFailed("it broke"), CommandFailed("no controller"), "FAILED")
    assert story.wait() == ["FAILED"]
    assert story.logins == 3
    assert story.told == ["it broke; waiting on", "no controller; waiting on"]


def test_one_that_is_not_there_at_first_is_an_error() -> None:
    with pytest.raises(ConnectionFailed):
        Story(ConnectionFailed("no")).wait()


def test_a_host_that_lets_nobody_in_is_not_asked_again() -> None:
    with pytest.raises(AuthenticationFailed):
        Story("RUNNING", AuthenticationFailed("no")).wait()


def test_a_job_of_ours_is_not_gone_at_once() -> None:
    assert Story("RUNNING", "", "COMPLETED").wait() == ["COMPLETED"]
    assert Story("RUNNING", "").wait() == ["GONE"]


def test_a_job_that_is_requeued_is_waited_for() -> None:
    assert Story("RUNNING", "REQUEUED", "PENDING", "COMPLETED").wait() == ["COMPLETED"]


def test_it_waits_no_longer_than_it_may() -> None:
    story = Story("RUNNING")
    assert story.wait(timeout=30) == []
    assert sum(story.pauses) == 30


def test_what_an_ended_job_used_is_looked_for_once_more() -> None:
    story = Story("COMPLETED")
    assert story.wait() == ["COMPLETED"]
    assert len(story.pauses) == 1


def test_a_job_that_comes_back_after_its_end_is_waited_for() -> None:
    assert Story("FAILED", "PENDING", "COMPLETED").wait() == ["COMPLETED"]


def test_a_job_that_had_ended_where_there_are_no_accounts_is_asked_for_once() -> None:
    story = Story((JobState(id="12", state="FAILED", exit_code="7:0", unaccounted=True),))
    assert [one.report.code for one in story.answered()] == [7]
    assert story.pauses == []


def test_a_job_that_slurm_may_bring_back_is_asked_for_again() -> None:
    failed = (JobState(id="12", state="NODE_FAIL", unaccounted=True),)
    assert Story(failed, "PENDING", "COMPLETED").wait() == ["COMPLETED"]


def test_a_job_that_was_forgotten_before_is_asked_for_once() -> None:
    story = Story("")
    assert story.wait() == ["GONE"]
    assert story.pauses == []


def test_a_task_that_failed_counts_although_slurm_forgets_it_before_the_array_ends() -> None:
    failed = JobState(id="12_0", state="FAILED", exit_code="7:0", unaccounted=True)
    living, good = (
        JobState(id="12_1", state="RUNNING"),
        JobState(id="12_1", state="COMPLETED", unaccounted=True),
    )
    (answer,) = Story((failed, living), (living,), (good,)).answered()
    assert (answer.report.state, answer.report.code) == ("FAILED", 7)
    assert [one.id for one in answer.states] == ["12_0", "12_1"]


def test_a_job_that_slurm_forgets_between_two_looks_is_not_gone() -> None:
    assert Story("RUNNING", "COMPLETED", "").wait() == ["COMPLETED"]
