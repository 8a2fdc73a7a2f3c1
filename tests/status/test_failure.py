"""Why a job failed: from records of Slurm, and from the ends of logs as programs write them.

The messages of NCCL, apptainer and CUDA are modelled on their documentation: there is no GPU here.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.remote.route import Route
from slurmgen.slurm import pending
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import LOG_END, Why, why, with_logged_code, with_lost_environment
from slurmgen.status.failure_patterns import SIGNS, Sign
from slurmgen.status.job import Job
from slurmgen.status.query import make_report
from slurmgen.status.report import to_json
from tests.support.examples import examples

JOB = Job(JobId("12"), Route(site="daic", via="ssh"))
LOG_FILES = Path(__file__).parent / "logs"
MODULE, RANKS, CHAINED, WATCHDOG = (
    (LOG_FILES / f"{name}.log").read_text() for name in ("module", "ranks", "chained", "watchdog")
)
LOGS = {
    MODULE: "Python has no module einops",
    RANKS: "Python raised an error (rank 3 on n1): “ValueError: loss is nan”",
    CHAINED: "Python raised an error: “KeyError: 'lr'”",
    WATCHDOG: "NCCL waited for a rank until its timeout",
    **{one.text: one.expected for one in examples(LOG_FILES / "messages.txt")},
}


def failed(exit_code: str = "1:0", **more: object) -> JobState:
    return JobState(**{"id": "12", "state": "FAILED", "exit_code": exit_code, **more})  # type: ignore[arg-type]


def reason(log: str, job: JobState | None = None, seen: Why | None = None) -> Why:
    found = why(job or failed(), [Piece(log)], seen)
    assert found
    return found


@pytest.mark.parametrize(("log", "what"), LOGS.items())
def test_the_end_of_a_log_shows_the_reason(log: str, what: str) -> None:
    assert reason(f"epoch 1\n{log}").what == what


@pytest.mark.parametrize(("log", "what"), LOGS.items())
def test_sruns_last_lines_hide_no_reason(log: str, what: str) -> None:
    ending = "srun: error: n9: task 0: Exited with exit code 1\nsrun: Terminating StepId=12.0\n"
    assert reason(f"epoch 1\n{log}\n{ending}").what.replace(" (task 0 on n9)", "") == what


def test_each_sign_has_an_example() -> None:
    for sign in SIGNS:
        assert any(sign.search(log) for log in LOGS), sign.what


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (MODULE, "ModuleNotFoundError: No module named 'einops'"),
        (RANKS, "ValueError: loss is nan"),
        (CHAINED, "KeyError: 'lr'"),
        (WATCHDOG + MODULE, "ModuleNotFoundError: No module named 'einops'"),
    ],
    ids=["alone", "of the first rank", "the first of a chain", "not of a consequence"],
)
def test_the_reason_quotes_the_line_of_the_log(log: str, line: str) -> None:
    assert reason(log).line == line


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (failed(state="TIMEOUT", time_limit="00:01:00"), "it reached its time limit of 00:01:00"),
        (
            failed("0:125", state="OUT_OF_MEMORY", usage=Usage(memory=65536, memory_used=66560)),
            "it used more memory than the 64G it had; Slurm measured 65G",
        ),
        (failed(state="OUT_OF_MEMORY"), "it used more memory than it had"),
        (failed("1:0", state="NODE_FAIL", nodes="n7"), "one of its nodes failed (n7)"),
        (failed("0:15", state="PREEMPTED"), "a job of higher priority took its place"),
        (failed("0:15", state="CANCELLED", cancelled_by="1000"), "it was cancelled by user 1000"),
        (
            failed("0:9", usage=Usage(memory=100, memory_used=396)),
            "it used more memory than the 100M it had; Slurm measured 396M",
        ),
        (failed("137:0"), "it ended with SIGKILL, which usually means that memory ran out"),
        (failed("127:0"), "a command of its script was not found"),
        (failed("126:0"), "a command of its script cannot be executed"),
        (failed("135:0"), "it ended with SIGBUS, usually because shared memory (/dev/shm) ran out"),
        (failed("0:4"), "it ended with SIGILL: a program was built for another CPU"),
        (
            failed("0:53"),
            "Slurm could not start it: its folder or that of its log does not exist, or is not writable",
        ),
        (failed("5:0"), "its script ended with exit code 5"),
        (failed(""), "Slurm gives no reason"),
    ],
)
def test_a_record_of_slurm_shows_the_reason(state: JobState, what: str) -> None:
    assert reason("", state).what == what


@pytest.mark.parametrize(
    ("code", "log", "shown"),
    [
        ("9:0", "slurm_script: line 9:    77 Killed                  python a.py", "137:0"),
        ("72:0", "srun: error: n1: task 1: Exited with exit code 200", "200:0"),
        ("72:0", "srun: error: n1: task 1: Exited with exit code 72", "72:0"),
        ("1:0", MODULE, "1:0"),
        ("127:0", "Training started", "127:0 or 255:0"),
        (
            "9:0",
            "srun: error: n1: task 1: Killed\nsrun: error: n1: task 0: Exited with exit code 9\n",
            "9:0 or 137:0",
        ),
    ],
)
def test_a_log_may_show_the_exit_code_that_sacct_prints_too_small(code: str, log: str, shown: str) -> None:
    job = with_logged_code(failed(code, is_exact=False), [Piece(log)])
    assert job.end == shown
    assert (job.other_status is None) == ("or" not in shown)


@pytest.mark.parametrize(
    ("code", "what"), [("9:0", "9 or 137"), ("127:0", "127 or 255"), ("0:0", "128"), ("11:0", "11 or 139")]
)
def test_nothing_follows_from_an_exit_code_that_is_not_exact(code: str, what: str) -> None:
    assert why(failed(code, is_exact=False)) == Why(f"its script ended with exit code {what}")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("sbatch --export=NONE --parsable a.sh", "--export=NONE"),
        ("sbatch --export NONE a.sh", "--export NONE"),
        ("sbatch --export=ALL --export=A,B a.sh", "--export=A,B"),
        ("sbatch --export=NONE --export=ALL,A=1 a.sh", ""),
        ("sbatch --export-file=x a.sh", ""),
        ("", ""),
    ],
)
def test_what_kept_the_environment_from_a_job_is_named(line: str, option: str) -> None:
    reason = Why("command not found: a")
    found = with_lost_environment(reason, line)
    assert (f" with {option}, " in found.what) if option else found == reason


@pytest.mark.parametrize("state", ["COMPLETED", "RUNNING", "PENDING"])
def test_a_job_that_has_not_failed_has_no_reason(state: str) -> None:
    assert why(failed(state=state), [Piece(MODULE)], Why("an earlier failure")) is None


@given(st.text(max_size=300))
def test_every_log_gives_a_reason(log: str) -> None:
    assert reason(f"{log}\n[rank0]: Traceback (most recent call last):\n{log}\n")


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Resources", "waits for nodes"),
        ("Priority", "higher priority"),
        ("QOSMaxGRESPerUser", "its QoS has a limit on the GPUs of one user at a time"),
        ("AssocGrpGRES", "its account has a limit on the GPUs of all its jobs together"),
        ("AssocGrpGRESMinutes", "counted in minutes"),
        ("AssocMaxJobsLimit", "its account has a limit on the jobs"),
        ("QOSMaxMemoryPerJob", "its QoS has a limit on the memory of one job"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-9]", "down, reserved"),
        ("PartitionTimeLimit", "longer than the partition allows"),
        ("Dependency", "another job"),
        ("BeginTime", "waits for its start time"),
        ("launch failed requeued held", "a node could not start it"),
        ("JobHoldMaxRequeue", "as often as the site allows"),
        ("SomethingNew", ""),
    ],
)
def test_a_pending_reason_is_explained(reason: str, part: str) -> None:
    assert part in pending.reason_words(reason)
    assert bool(pending.reason_words(reason)) == bool(part)


@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [
        ("COMPLETED", "0:0", 0),
        ("FAILED", "3:0", 3),
        ("FAILED", "0:9", 137),
        ("FAILED", "0:53", 1),
        ("TIMEOUT", "0:0", 143),
        ("CANCELLED", "0:0", 143),
        ("OUT_OF_MEMORY", "0:125", 137),
        ("NODE_FAIL", "0:0", 1),
        ("RUNNING", "0:0", 3),
        ("", "", 3),
    ],
)
def test_a_final_state_has_an_exit_code(state: str, exit_code: str, code: int) -> None:
    states = [JobState(id="12", state=state, exit_code=exit_code)] if state else []
    assert make_report(JOB, states).code == code


def test_an_array_with_running_tasks_is_running() -> None:
    states = [JobState(id=f"12_{n}", state=word) for n, word in enumerate(["FAILED", "PENDING", "RUNNING"])]
    report = to_json(make_report(JOB, states))
    assert (report.state, report.ended, [task.state for task in report.tasks]) == (
        "RUNNING",
        False,
        ["FAILED", "PENDING", "RUNNING"],
    )


def test_an_error_at_the_end_of_a_long_line_is_found() -> None:
    log = f"{'=' * 5000}> ModuleNotFoundError: No module named 'einops'\n"
    assert reason(log).what == "Python has no module einops"


SEEN = Why("Python has no module einops")


@pytest.mark.parametrize(
    ("exit_code", "log", "what"),
    [
        ("1:0", "", SEEN.what),
        ("0:53", "", SEEN.what),
        ("1:0", "train.py: command not found\n", "command not found: train.py"),
    ],
)
def test_an_earlier_reason_counts_once_the_log_is_deleted(exit_code: str, log: str, what: str) -> None:
    assert reason(log, failed(exit_code), SEEN).what == what


def adversarial(pattern: str) -> set[str]:
    """Texts on which a backtracking pattern takes long: many times what it searches for, without its end."""
    literals = [re.sub(r"\\(?=[\[\]().])", "", word) for word in re.split(r"\\[sSdwb]|[|?*+{}^$\n]", pattern)]
    words = {*literals, *"a A 1 : ' / . \n".split(" "), " ", ": ", "a: ", "a b:", "'x' ", "1:", "\r", "Aa."}
    fillers = ("", " ", "a", ": ", ":", "1")
    return {
        (word + filler) * (LOG_END // 2 // len(word + filler)) for word in words if word for filler in fillers
    }


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.what)
def test_no_log_makes_a_search_slow(sign: Sign) -> None:
    for text in adversarial(sign.pattern):
        for log in (text, f"{text}x", text.replace("\n", " ")):
            assert seconds(lambda log=log: sign.search(log)) < 2, log[:80]  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        *("x", "/", "a."),
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n" * 200 + "\n" * LOG_END,
        "Root Cause (first observed failure): rank ",
        "Traceback (most recent call last):\n" + "Aa." * LOG_END,
        "Traceback (most recent call last):" + " " * LOG_END,
        "[rank0]: Traceback (most recent call last):\n[rank1]: Aa:\n",
        "x" * 1000 + "Root Cause (first observed failure):\n",
        "Root Cause (first observed failure):\n  rank      : 3\n  exitcode  : 1\n  time      : 1\n",
        "srun: error: n1: task 1: Exited with exit code 3\n",
        "srun: error: n1: tasks " + "1-9," * 120 + ": Killed\n",
        "srun: error: ",
        " : line 1: 1 ",
        "process 1 terminated with signal SIGKILL\n",
        "srun: error: n1: tasks " + "1-9," * 40 + ": Exited with exit code 1\n"
        "[rank99]: Traceback (most recent call last):\n[rank99]: ConnectionResetError: by peer\n" * 9,
        "failed (exitcode: -9) local_rank: 1",
        "1: [rank1]: ",
    ],
)
def test_no_log_makes_an_explanation_slow(text: str) -> None:
    log = (text * (1 + 2 * LOG_END // len(text)))[: 2 * LOG_END]
    assert seconds(lambda: reason(log)) < 2


def seconds(call: Callable[[], object]) -> float:
    """Processor time, which other processes do not lengthen."""
    start = time.thread_time()
    call()
    return time.thread_time() - start
