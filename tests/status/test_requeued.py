"""What status reports of a job that was requeued."""

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Completed
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.failure import LOG_END, why
from slurmgen.status.job import Job
from slurmgen.status.query import make_report, query_site, recall, save_final_states
from slurmgen.status.report import to_json
from slurmgen.status.report_text import lines
from slurmgen.status.segments import Requeued, requeued
from tests.submit.test_exactly_once import FakeHost

ROUTE = Route(site="daic", via="ssh")
JOB = Job(JobId("12"), ROUTE)
LINE = "slurmgen: run {} is unfinished, at step {}, {} without progress: scontrol {}\n"


def shown(log: str, state: str, reason: str = "") -> str:
    report = make_report(JOB, [JobState(id="12", state=state, reason=reason)])
    return "\n".join(lines(structs.replace(report, requeued=requeued(log))))


def test_the_last_unfinished_run_counts() -> None:
    log = LINE.format(1, 400, 0, "requeue") + "loss 3\n" + LINE.format(2, 800, 0, "requeue") + "loss 2\n"
    assert requeued(log) == Requeued(runs=2, step=800, idle=0, held=False)
    assert "requeued: 2 runs ended unfinished at step 800" in shown(log, "RUNNING")


def test_a_run_without_a_recorded_step_is_counted_too() -> None:
    log = LINE.replace("at step {}", "no step recorded").format(1, 1, "requeue")
    assert requeued(log) == Requeued(runs=1, step=0, idle=1, held=False)


def test_a_log_without_such_a_line_says_nothing() -> None:
    assert requeued("slurmgen: run x is unfinished\nloss 3\n") is None
    assert "requeued" not in shown("loss 3\n", "RUNNING")


def test_a_job_that_its_script_held_is_explained_with_what_to_do() -> None:
    log = LINE.format(2, 0, 2, "requeuehold")
    text = shown(log, "PENDING", "job_requeued_in_held_state")
    assert "two runs in a row made no progress" in text
    assert "`scontrol release 12`" in text
    assert "the last 2 runs made no progress" in text


def test_a_job_that_was_released_is_not_explained_by_the_hold() -> None:
    log = LINE.format(2, 0, 2, "requeuehold")
    assert "scontrol release" not in shown(log, "PENDING", "Priority")


def test_a_held_job_has_no_expected_start() -> None:
    held = JobState(id="12", state="PENDING", reason="JobHeldUser", start="2030-01-01T00:00:00")
    waiting = structs.replace(held, reason="Priority")
    assert "expected" not in "\n".join(lines(make_report(JOB, [held])))
    assert "expected to start at 2030" in "\n".join(lines(make_report(JOB, [waiting])))


def submitted(folder: Path, *, requeue: bool = True) -> Job:
    record = Record(
        id="12",
        name="n",
        folder=str(folder),
        output="%j.out",
        submitted="2020-01-01T00:00:00+00:00",
        requeue=requeue,
        **structs.asdict(ROUTE),
    )
    return Job.of(record, ROUTE)


@pytest.mark.parametrize(("requeue", "advice"), [(True, "had not stopped yet"), (False, "use --requeue, ")])
def test_the_advice_after_the_time_limit_knows_whether_the_job_used_requeue(
    requeue: bool, advice: str, tmp_path: Path
) -> None:
    state = JobState(id="12", state="TIMEOUT")
    report = make_report(submitted(tmp_path, requeue=requeue), [state], reason=why(state))
    assert report.why
    assert advice in report.why.todo


class Host(FakeHost):
    """A host with the given replies of Slurm, and the files of this machine."""

    def run(self, argv: list[str], **options: Any) -> Completed:
        return LocalTransport().run(argv, **options) if argv[0] == "sh" else super().run(argv, **options)


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT", "FAILED"])
def test_after_the_end_the_unfinished_runs_are_still_reported_and_remembered(
    state: str, tmp_path: Path
) -> None:
    job, row = submitted(tmp_path), f"12|{state}|0:0|00:10|00:20|Unknown|n1||00:00|||||n\n"
    (tmp_path / "12.out").write_text(LINE.format(2, 800, 0, "requeue") + "loss 2\n" * LOG_END)
    host = Host(squeue=Completed(0, b""), sacct=Completed(0, row.encode()))
    Ledger().add(cast(Record, job.record))
    reports = query_site(host, [job], with_requeues=True)  # type: ignore[arg-type]
    assert "requeued: 2 runs ended unfinished at step 800" in "\n".join(map(str.strip, lines(reports[0])))
    save_final_states(reports)
    (tmp_path / "12.out").unlink()
    (record,) = Ledger().all()
    recalled = recall(Job.of(record, ROUTE), "the log is gone")
    assert recalled
    assert recalled.requeued == Requeued(2, 800, 0, held=False)


def test_programs_get_the_numbers() -> None:
    report = make_report(JOB, [JobState(id="12", state="RUNNING")])
    shown = to_json(structs.replace(report, requeued=Requeued(3, 40, 1, held=False)))
    assert shown.requeued == Requeued(3, 40, 1, held=False)
    assert to_json(report).requeued is None
