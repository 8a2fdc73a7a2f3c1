"""Replies of Slurm 22.05, replies with noise around them, and nothing but noise."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.errors import CommandFailed
from slurmgen.remote.route import Route
from slurmgen.slurm import replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import ENDED, JobState, Usage, mebibytes, whole_seconds
from slurmgen.status.job import Job
from slurmgen.status.query import make_report
from slurmgen.status.report_text import lines

SCONTROL = """JobId=16304 JobName=train it = JobState=FAILED now
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=(null) QOS=(null)
   JobState=COMPLETED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:04 TimeLimit=00:05:00 TimeMin=N/A
   NodeList=n[1-2]
   BatchHost=n1
   WorkDir=/root/a b
   StdErr=/root/a b/train-16304.out
   StdIn=/dev/null
   StdOut=/root/a b/train-16304.out
   Power=

"""
ARRAY = """JobId=14 ArrayJobId=13 ArrayTaskId=1 JobName=many
   JobState=RUNNING Reason=None Dependency=(null)

JobId=13 ArrayJobId=13 ArrayTaskId=2-3 JobName=many
   JobState=PENDING Reason=Resources Dependency=(null)
"""
text = st.text(st.characters(codec="utf-8"), max_size=40)
noise = st.lists(text.filter(lambda line: not line.strip()[:1].isdigit()), max_size=4).map("\n".join)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=30)


@pytest.mark.parametrize(
    ("reply", "job"),
    [
        ("12\n", JobId("12")),
        ("12;big\n", JobId("12", "big")),
        ("Welcome!\n4711\n12\n", JobId("12")),
        ("12\nGoodbye 13\n", JobId("12")),
        ("Submitted batch job 12\n", None),
        ("", None),
        ("12 13", None),
        ("-12", None),
    ],
)
def test_the_job_is_the_last_line_that_is_an_id(reply: str, job: JobId | None) -> None:
    assert replies.job_id(reply) == job


@given(noise, st.integers(1, 10**9), st.sampled_from(["", "big", "c-1.x"]), noise)
def test_noise_around_an_id_changes_nothing(before: str, number: int, cluster: str, after: str) -> None:
    reply = f"{before}\n{number}{';' if cluster else ''}{cluster}\n{after}"
    assert replies.job_id(reply) == JobId(str(number), cluster)


@given(text)
def test_no_reply_makes_a_parser_fail(reply: str) -> None:
    replies.job_id(reply)
    replies.trial(reply)
    replies.log_path(reply)
    assert replies.complaint(reply, "sbatch")
    for parse in (replies.squeue, replies.sacct, replies.scontrol):
        assert isinstance(parse(reply), tuple)


@given(noise, names)
def test_squeue_is_parsed_for_any_job_name(before: str, name: str) -> None:
    (state,) = replies.squeue(f"{before}\n12|PENDING|Resources|0:00|1:00|N/A||||||{name}\n")
    assert state == JobState(
        id="12", state="PENDING", reason="Resources", elapsed="0:00", time_limit="1:00", name=name
    )


@pytest.mark.parametrize("id_", ["12", "12_3", "12_[1-3]", "12_[1,5%2]", "12+1"])
def test_squeue_accepts_every_form_of_an_id(id_: str) -> None:
    assert replies.squeue(f"{id_}|RUNNING|None|1:02|5:00|N/A|n1|||||a\n")[0].id == id_


def test_a_line_of_a_shell_profile_is_not_a_job() -> None:
    assert replies.squeue("8|RUNNING\nCLUSTER: big\n1|2|3|4|5|6|7|8\n") == ()


def test_sacct_reports_a_cancelled_job_with_the_user_who_cancelled_it() -> None:
    (state,) = replies.sacct("12|CANCELLED by 1000|0:15|00:01:00|01:00:00|Unknown|n1||00:00:00|||||a|b\n")
    assert (state.state, state.exit_code, state.name, state.ended) == ("CANCELLED", "0:15", "a|b", True)
    assert state.cancelled_by == "1000"


def test_scontrol_is_parsed_although_the_job_name_imitates_its_output() -> None:
    (state,) = replies.scontrol(SCONTROL)
    assert state == JobState(
        id="16304",
        state="COMPLETED",
        elapsed="00:00:04",
        time_limit="00:05:00",
        nodes="n[1-2]",
        exit_code="0:0",
        name="train it = JobState=FAILED now",
        folder="/root/a b",
    )


def test_a_job_that_never_started_has_run_for_no_time() -> None:
    text = SCONTROL.replace("RunTime=00:00:04", "RunTime=20780-06:31:20").replace(
        "   NodeList", "   StartTime=Unknown EndTime=2026-11-23T06:31:20 Deadline=N/A\n   NodeList"
    )
    assert [state.elapsed for state in replies.scontrol(text)] == ["00:00:00"]


def test_scontrol_reports_each_task_of_an_array() -> None:
    assert [(state.id, state.state) for state in replies.scontrol(ARRAY)] == [
        ("13_1", "RUNNING"),
        ("13_2-3", "PENDING"),
    ]


def test_scontrol_reports_the_path_of_the_log() -> None:
    assert replies.log_path(SCONTROL) == "/root/a b/train-16304.out"


def test_one_processor_is_singular() -> None:
    reply = "sbatch: Job 9 to start at t using 1 processors on nodes n1"
    assert replies.trial(reply) == "it would start at t on n1, with 1 processor"


def test_a_trial_is_reported_in_words() -> None:
    reply = "sbatch: Job 9 to start at 2026-01-01T00:00:00 using 4 processors on nodes n1 in partition main"
    assert (
        replies.trial(reply)
        == "it would start at 2026-01-01T00:00:00 on n1 in partition main, with 4 processors"
    )


def test_an_error_message_has_no_prefix_and_no_noise() -> None:
    reply = (
        "Last login\nsbatch: error: Invalid qos\nsbatch: error: Batch job submission failed: Invalid qos\n"
    )
    assert replies.complaint(reply, "sbatch") == "Invalid qos; Batch job submission failed: Invalid qos"


def test_a_job_that_may_still_run_has_not_ended() -> None:
    assert not ENDED & {"PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED", "CONFIGURING"}


RUN = """12|COMPLETED|0:0|00:00:06|01:00:00|2026-11-21T06:41:33|n1|cpu=2,gres/gpu=1,mem=2G|00:03.016|||||train
12.batch|COMPLETED|0:0|00:00:06||2026-11-21T06:41:33|n1|cpu=2,mem=2G|00:00.013|cpu=00:00:00,mem=10672K||||batch
12.extern|COMPLETED|0:0|00:00:06||2026-11-21T06:41:33|n1|cpu=2,mem=2G|00:00.013|||||extern
12.0|COMPLETED|0:0|00:00:06||2026-11-21T06:41:33|n1|cpu=2,mem=2G|00:03.002|cpu=00:00:02,mem=222132K||||python3
"""


def test_sacct_reports_the_usage_of_the_largest_step() -> None:
    (state,) = replies.sacct(RUN)
    assert (state.id, state.name, state.time_limit) == ("12", "train", "01:00:00")
    assert state.usage == Usage(cpus=2, gpus=1, memory=2048, memory_used=217, cpu_seconds=3)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1655.50K", 2), ("1.5G", 1536), ("2T", 2097152), ("12", 12), ("", None), ("x", None), ("nanK", None)],
)
def test_sizes_are_parsed_as_slurm_prints_them(text: str, size: int | None) -> None:
    assert mebibytes(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93784),
        ("00:03.016", 3),
        ("0:02", 2),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_times_are_parsed_as_slurm_prints_them(text: str, seconds: int | None) -> None:
    assert whole_seconds(text) == seconds


DIGITS = "9" * 4000


@pytest.mark.parametrize(
    "id_", ["\u0661\u0662", "\u00b2", "1" * 19, "12_\u0663", "12_[1-\u0663]", "12+\u00b2", f"12_{DIGITS}"]
)
def test_an_id_has_few_digits_and_only_ascii_ones(id_: str) -> None:
    assert replies.job_id(f"{id_}\n") is None
    assert replies.squeue(f"{id_}|RUNNING|None|1:02|5:00|N/A|n1|||||a\n") == ()
    assert replies.sacct(f"{id_}|FAILED|1:0|0:15|1:00|Unknown|n1|cpu=1|0:01|||||a\n") == ()
    assert replies.scontrol(f"JobId={id_} JobName=a\n   JobState=FAILED Reason=None\n") == ()


@pytest.mark.parametrize("cluster", ["-x", "a b", "x" * 65, "caf\u00e9"])
def test_a_cluster_is_a_short_name(cluster: str) -> None:
    assert replies.job_id(f"12;{cluster}\n") is None


@pytest.mark.parametrize("state", ["RUNNING\t", "Running", "RUNNING now", "A" * 40, ""])
def test_a_state_is_one_word(state: str) -> None:
    assert replies.squeue(f"12|{state}|None|1:02|5:00|N/A|n1|||||a\n") == ()


def test_numbers_that_are_too_long_count_as_unknown() -> None:
    (state,) = replies.sacct(
        f"12|FAILED|{DIGITS}:0|{DIGITS}|{DIGITS}:0|Unknown|n|cpu={DIGITS},mem={DIGITS}G|{DIGITS}|||||a\n"
    )
    report = make_report(Job(JobId("12"), Route(site="daic", via="ssh")), [state])
    assert (report.elapsed, report.time_limit, report.usage) == (None, None, Usage())
    assert list(lines(report))


def test_a_heterogeneous_job_is_parsed() -> None:
    (state,) = replies.scontrol(
        "JobId=12 HetJobId=11 HetJobOffset=1 JobName=a JobName=b\n   JobState=FAILED Reason=None\n"
    )
    assert (state.id, state.name) == ("11+1", "a JobName=b")


@pytest.mark.parametrize(
    "text",
    [
        "JobId=" + "1" * 64_000,
        "JobId=1 ArrayJobId=1 ArrayTaskId=" + "1" * 64_000,
        "JobId=1" + " a=b" * 16_000,
        "\nJobId=1 a=" * 6_000,
        "\n" * 64_000,
        " " * 64_000,
        "Job 1 to start at " * 4_000,
        "   Requeue=1 ExitCode=" * 3_000,
        "sbatch: error: " * 4_000,
    ],
    ids=lambda text: text[:20],
)
def test_no_reply_takes_long_to_parse(text: str) -> None:
    start = time.thread_time()
    for parse in (
        replies.squeue,
        replies.sacct,
        replies.scontrol,
        replies.job_id,
        replies.trial,
        replies.log_path,
    ):
        parse(text)
    assert time.thread_time() - start < 0.5


def test_a_long_error_message_is_cut() -> None:
    assert len(replies.complaint(f"sbatch: error: {DIGITS}", "sbatch")) <= 1000
    assert len(str(CommandFailed(DIGITS, DIGITS))) < 2100


@pytest.mark.parametrize(
    "number", ["137", '{"set": true, "number": 137}'], ids=["since 23.02", "since 23.11"]
)
def test_json_of_any_release_shows_the_exact_exit_code(number: str) -> None:
    array = f'"array": {{"job_id": 7, "task_id": {number.replace("137", "3")}}}'
    codes = f'"exit_code": {{"status": "ERROR", "return_code": {number}}}'
    text = f'noise\n{{"jobs": [{{"job_id": 9, {codes}, {array}}}, {{"job_id": 5, {codes}}}], "errors": []}}'
    assert [(one.id, one.exit_code) for one in replies.exit_codes(text)] == [("7_3", "137:0"), ("5", "137:0")]


@pytest.mark.parametrize(
    "text", ["", "noise", "{", '{"jobs": ' + "[" * 99_999, '{"jobs": [1]}', "1|2", "a|9:0||"]
)
def test_a_reply_that_is_not_about_exit_codes_shows_none(text: str) -> None:
    assert replies.exit_codes(text) == ()
