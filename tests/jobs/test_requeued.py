"""What status reports of a job that was requeued."""

import json

from msgspec import structs

from slurmgen.jobs.job import Job
from slurmgen.jobs.report import to_json
from slurmgen.jobs.report_text import lines
from slurmgen.jobs.requeued import Requeued, requeued
from slurmgen.jobs.status import make_report
from slurmgen.remote.route import Route
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

JOB = Job(JobId("12"), Route(site="daic", via="ssh"))
LINE = "slurmgen: run {} is unfinished, at step {}, {} without progress: scontrol {}\n"


def shown(log: str, state: str, reason: str = "") -> str:
    report = make_report(JOB, [JobState(id="12", state=state, reason=reason)])
    return "\n".join(lines(structs.replace(report, requeued=requeued(log))))


def test_the_last_unfinished_run_counts() -> None:
    log = LINE.format(1, 400, 0, "requeue") + "loss 3\n" + LINE.format(2, 800, 0, "requeue") + "loss 2\n"
    assert requeued(log) == Requeued(runs=2, step=800, idle=0, held=False)
    assert "requeued: 2 runs ended unfinished at step 800" in shown(log, "RUNNING")


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


def test_programs_get_the_numbers() -> None:
    report = make_report(JOB, [JobState(id="12", state="RUNNING")])
    shown = to_json(structs.replace(report, requeued=Requeued(3, 40, 1, held=False)))
    assert shown["requeued"] == Requeued(3, 40, 1, held=False)
    assert json.dumps(to_json(report)["requeued"]) == "null"
