"""The first cause of a failure wins, in whatever order the ranks and the launchers write their lines.

The lines are those of torchrun, `accelerate launch`, srun and PyTorch, as real failing jobs wrote them
(tests/scenarios/test_failing_ranks.py runs such jobs). Those of NCCL are modelled on its documentation
and on its messages in PyTorch's issues, since there is no GPU here.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.slurm.replies import JobState
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import Why, why

RANKS = 4
SUMMARY = """\
E1121 21:50:08.491 88 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) \
local_rank: 1 (pid: 7) of binary: /venv/bin/python
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  time      : 2026-11-21_21:50:08
  host      : {host}
  rank      : {other} (local_rank: 0)
  exitcode  : -15 (pid: 8)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_21:50:{second:02}
  host      : {host}
  rank      : {rank} (local_rank: 1)
  exitcode  : {code} (pid: 7)  {name}
"""
AGENT = """\
W1121 21:50:09.539 85 torch/distributed/elastic/agent/server/api.py:752] Received 15 death signal
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.api.SignalException: Process 85 got signal: 15
"""
TERMINATING = """\
srun: launch/slurm: _step_signal: Terminating StepId=12.0
slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-21T21:50:09 ***
"""
LOST = (
    "RuntimeError: [pair.cc:545] Read error [127.0.0.1]:8107: Connection reset by peer. This is typically",
    "RuntimeError: [pair.cc:561] Connection closed by peer [127.0.0.1]:22206. This is typically caused by",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote process exited",
    "torch.distributed.DistBackendError: [3] is setting up NCCL communicator: store->get('0') got error: "
    "Socket Timeout",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "lightning.pytorch.utilities.exceptions.SIGTERMException",
)
WATCHDOG = (
    "[rank{0}]:[E1121 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out.\n"
)
SIGKILL = "ended with SIGKILL, which usually means that memory ran out"
CAUSES = {
    "exception": (1, "", "Python raised an error (rank {rank}{node}): “ValueError: loss is nan”"),
    "SIGKILL": (-9, "(SIGKILL)", "{who}{node} " + SIGKILL),
    "SIGSEGV": (-11, "(SIGSEGV)", "{who}{node} ended with SIGSEGV: a program crashed"),
    "exit code": (3, "", "{who}{node} ended with exit code 3"),
}
WORDS = {1: "Exited with exit code 1", -9: "Killed", -11: "Segmentation fault", 3: "Exited with exit code 3"}


def reason(log: str, nodes: str = "") -> Why:
    found = why(JobState(id="12", state="FAILED", exit_code="1:0", nodes=nodes), [Piece(log)])
    assert found
    return found


def traceback(rank: int, error: str) -> str:
    text = f'Traceback (most recent call last):\n  File "/home/me/train.py", line 9, in <module>\n{error}\n'
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def own_lines(rank: int, cause: str) -> str:
    """What the rank that fails first writes itself: nothing after a signal."""
    return traceback(rank, "ValueError: loss is nan") if cause == "exception" else ""


def torchrun(rank: int, cause: str) -> list[str]:
    """What torchrun writes on the node of that rank, and what srun and the other node write then."""
    code, name, _ = CAUSES[cause]
    host = f"n{rank // 2}"
    summary = SUMMARY.format(code=code, name=name, host=host, rank=rank, other=rank ^ 1, second=8)
    survivor = (rank + 2) % RANKS
    other = SUMMARY.format(
        code=1, name="", host=f"n{survivor // 2}", rank=survivor, other=survivor ^ 1, second=9
    )
    ends = [f"srun: error: {host}: task 1: Exited with exit code 1\n{TERMINATING}"]
    return [summary, AGENT, other, *ends, "srun: error: n1: task 0: Terminated\n"]


def srun(rank: int, cause: str) -> list[str]:
    """What srun writes where each task is a rank; what it ended itself comes last."""
    others = ",".join(str(one) for one in range(RANKS) if one != rank)
    return [
        f"srun: error: n{rank // 2}: task {rank}: {WORDS[CAUSES[cause][0]]}\n"
        f"{TERMINATING}srun: error: n0: tasks {others}: Terminated\n"
    ]


LAUNCHERS: dict[str, Callable[[int, str], list[str]]] = {"rank": torchrun, "task": srun}


@st.composite
def interleaved(draw: st.DrawFn, blocks: Sequence[str]) -> str:
    """The blocks in any order, their lines mixed; each block's lines stay in their order."""
    rest = [block.splitlines(keepends=True) for block in blocks if block]
    order = draw(st.permutations([number for number, lines in enumerate(rest) for _ in lines]))
    return "".join(rest[number].pop(0) for number in order)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("name", LAUNCHERS)
@given(data=st.data())
def test_the_first_cause_wins_in_whatever_order_the_lines_come(
    name: str, cause: str, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, RANKS - 1), "the rank that fails first")
    survivors = [one for one in range(RANKS) if one != rank]
    lost = [traceback(one, data.draw(st.sampled_from(LOST))) for one in survivors]
    ranks = data.draw(interleaved([own_lines(rank, cause), *lost]))
    # A launcher writes each of its messages as a whole.
    launcher = data.draw(st.permutations(LAUNCHERS[name](rank, cause)))
    at = data.draw(st.integers(0, ranks.count("\n")), "lines of the ranks before those of the launcher")
    lines = ranks.splitlines(keepends=True)
    log = "".join(["epoch 1\n", *lines[:at], *launcher, *lines[at:]])
    expected = CAUSES[cause][2].format(who=f"{name} {rank}", rank=rank, node=f" on n{rank // 2}")
    assert reason(log).what == expected, log


@pytest.mark.parametrize("error", LOST)
def test_a_lost_connection_counts_only_where_nothing_else_is_known(error: str) -> None:
    killed = "srun: error: n2: task 3: Killed\n"
    assert SIGKILL in reason(traceback(0, error) + killed).what
    assert "--mem" in reason(traceback(0, error) + killed).todo
    assert SIGKILL in reason(killed + traceback(0, error)).what
    assert reason(traceback(0, error)).what


def test_a_rank_that_srun_reports_after_its_survivors_is_still_the_first() -> None:
    """Nodes report at their own pace: a survivor's node may be faster."""
    log = (
        f"{traceback(0, LOST[0])}srun: error: n0: task 0: Exited with exit code 1\n"
        f"{TERMINATING}srun: error: n1: task 2: Killed\n"
    )
    assert reason(log).what == f"task 2 on n1 {SIGKILL}"


def test_a_rank_that_srun_kills_after_an_exit_code_is_not_the_first() -> None:
    """Slurm's KillWait: who ignores SIGTERM gets SIGKILL."""
    log = (
        f"srun: error: n1: task 2: Exited with exit code 3\n{TERMINATING}srun: error: n0: tasks 0-1: Killed\n"
    )
    assert reason(log).what == "task 2 on n1 ended with exit code 3"


def test_ranks_that_abort_after_a_timeout_are_survivors() -> None:
    """NCCL's watchdog calls abort(); the text is modelled on PyTorch's ProcessGroupNCCL.cpp."""
    survivor = SUMMARY.format(code=-6, name="(SIGABRT)", host="n0", rank=0, other=1, second=8)
    log = WATCHDOG.format(0) + survivor
    assert reason(log).what == "NCCL waited for a rank until its timeout"
    crashed = SUMMARY.format(code=-11, name="(SIGSEGV)", host="n1", rank=2, other=3, second=9)
    assert reason(log + crashed).what == "rank 2 on n1 ended with SIGSEGV: a program crashed"
    assert reason(log + traceback(3, "ValueError: loss is nan")).line == "ValueError: loss is nan"


def test_of_two_nodes_the_earlier_failure_counts() -> None:
    late, early = (
        SUMMARY.format(code=-code, name="", host=f"n{rank}", rank=rank, other=9, second=second)
        for code, rank, second in ((11, 0, 9), (9, 3, 8))
    )
    for log in (late + early, early + late):
        assert reason(log).what == f"rank 3 on n3 {SIGKILL}"


def test_an_exception_that_was_handled_does_not_hide_a_killed_rank() -> None:
    """Only what ends a rank is printed with the rank's prefix."""
    handled = 'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: no tracker\n'
    log = f"{handled}{traceback(0, LOST[0])}srun: error: n2: task 3: Killed\n"
    assert reason(log).what == f"task 3 on n2 {SIGKILL}"


def test_an_exception_in_a_destructor_is_not_a_cause() -> None:
    ignored = "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
    text = f"{ignored}Traceback (most recent call last):\nResourceWarning: late\nValueError: x\n"
    assert reason(text).what == "its script ended with exit code 1"


def test_the_first_exception_of_a_chain_decides_whether_the_rank_survived() -> None:
    again = "During handling of the above exception, another exception occurred:"
    chain = f"{traceback(0, LOST[0])}[rank0]: {again}\n{traceback(0, 'ValueError: not saved')}"
    assert reason(chain + traceback(1, "KeyError: 'lr'")).line == "KeyError: 'lr'"


@pytest.mark.parametrize("bar", ["  5%|#    | 5/100 [00:01<00:20]", "\rEpoch 1:  50%|##   | 3/6 [00:01]"])
def test_a_traceback_behind_a_progress_bar_is_read(bar: str) -> None:
    log = traceback(0, LOST[0]) + bar + traceback(3, "ValueError: loss is nan")
    assert reason(log).what == "Python raised an error (rank 3): “ValueError: loss is nan”"
    plain = bar + "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'lr'\n"
    assert reason(plain).line == "KeyError: 'lr'"


@pytest.mark.parametrize("error", ["Exception: no data", "queue.Empty", "my.lib.Failed: x", "socket.timeout"])
def test_every_exception_of_a_rank_is_found(error: str) -> None:
    assert reason(traceback(0, LOST[0]) + traceback(1, error)).line == error


def test_a_rank_that_another_program_terminated_is_named() -> None:
    log = traceback(0, LOST[0]) + SUMMARY.format(
        code=-15, name="(SIGTERM)", host="n1", rank=3, other=2, second=8
    )
    assert reason(log).what.startswith("rank 3 on n1 ended with SIGTERM")


@pytest.mark.parametrize("prefix", ["[default3]:", "[default3]:[rank3]: ", "3: ", "3: [rank3]: ", ""])
def test_lines_keep_the_prefixes_of_torchrun_and_srun(prefix: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1', "KeyError: 'lr'"]
    log = "".join(f"{prefix}{line}\n" for line in lines)
    assert reason(log).line == "KeyError: 'lr'"
    assert ("rank 3" in reason(log).what) == ("rank3" in prefix)


def test_a_traceback_in_the_summary_of_torchrun_is_read() -> None:
    """As torch.distributed.elastic's @record writes it."""
    log = (
        "Root Cause (first observed failure):\n  rank      : 2 (local_rank: 0)\n  exitcode  : 1 (pid: 7)\n"
        '  traceback : Traceback (most recent call last):\n    File "a.py", line 3, in main\n'
        "  KeyError: 'lr'\n"
    )
    assert reason(log).what == "Python raised an error (rank 2): “KeyError: 'lr'”"
    assert reason(log).line == "KeyError: 'lr'"


def test_a_node_that_torchrun_calls_localhost_has_the_name_that_slurm_gives_it() -> None:
    """It is the only node, or that of the task whose number srun writes before each line."""
    plain = SUMMARY.format(code=-9, name="", host="localhost", rank=3, other=2, second=8)
    assert reason(plain).what == f"rank 3 {SIGKILL}"
    assert reason(plain, "n7").what == f"rank 3 on n7 {SIGKILL}"
    assert reason(plain, "n[7-8]").what == f"rank 3 {SIGKILL}"
    labelled = "".join(f"1: {line}\n" for line in plain.splitlines())
    ends = (
        "srun: error: n7: task 0: Exited with exit code 1\nsrun: error: n8: task 1: Exited with exit code 1\n"
    )
    assert reason(labelled, "n[7-8]").what == f"rank 3 {SIGKILL}"
    assert reason(labelled + ends, "n[7-8]").what == f"rank 3 on n8 {SIGKILL}"
    assert reason(labelled.replace("localhost", "gpu1") + ends).what == f"rank 3 on gpu1 {SIGKILL}"


def test_without_the_summary_the_worker_that_torchrun_saw_failing_counts() -> None:
    log = SUMMARY.format(code=-9, name="", host="n", rank=1, other=0, second=1).partition("Failures:")[0]
    assert reason(log).what == f"local rank 1 {SIGKILL}"


def test_a_process_that_torch_spawned_is_named() -> None:
    log = (
        "Traceback (most recent call last):\n"
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
    )
    assert reason(log).what == f"process 1 {SIGKILL}"


def test_a_launcher_that_was_killed_is_a_task() -> None:
    log = f"W1121 88 torch/distributed/run.py:774] *****\n{AGENT}srun: error: n2: task 1: Killed\n"
    assert reason(log).what == f"task 1 on n2 {SIGKILL}"


@pytest.mark.parametrize("status", [137, 139])
def test_the_exit_code_of_a_shell_stands_for_a_signal(status: int) -> None:
    log = f"srun: error: n2: task 1: Exited with exit code {status}\n"
    assert {137: "SIGKILL", 139: "SIGSEGV"}[status] in reason(log).what


def test_what_slurm_reports_of_memory_wins_and_names_the_rank() -> None:
    killed = SUMMARY.format(code=-9, name="(SIGKILL)", host="n1", rank=3, other=2, second=8)
    oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.\n"
    for log in (oom + traceback(3, "ValueError: x") + killed, killed + oom):
        assert reason(log).what == "it used more memory than it had (rank 3 on n1)"
        assert "--mem" in reason(log).todo


def test_a_run_before_the_last_requeue_does_not_count() -> None:
    before = f"{traceback(0, 'ValueError: old')}slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20"
    log = f"{before}T10:00:00 DUE TO PREEMPTION ***\n{traceback(1, 'KeyError: 1')}"
    assert reason(log).line == "KeyError: 1"


def test_an_import_error_names_the_rank_that_torchrun_saw_failing() -> None:
    error = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'einops'\n"
    summary = SUMMARY.format(code=1, name="", host="n1", rank=3, other=2, second=8)
    assert reason(error + summary).what == "Python has no module einops (rank 3 on n1)"


def test_what_a_library_caught_does_not_hide_what_ended_the_rank() -> None:
    """Lightning's batch size finder provokes out-of-memory errors, and handles them."""
    log = f"torch.OutOfMemoryError: CUDA out of memory. Trying 32.\n{traceback(2, 'KeyError: 1')}"
    assert reason(log).what == "Python raised an error (rank 2): “KeyError: 1”"
