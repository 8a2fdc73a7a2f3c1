"""How the tests run programs: under which condition, as copies of one process, and what they leave behind."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import CONDITION, KERNELS, THREADS, condition
from tests.support.fork_server import warm

from .running import run, torchrun

LAUNCHER = """
import subprocess
rank = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(rank.pid)
"""


def test_a_rank_in_a_session_of_its_own_ends_with_the_run() -> None:
    rank = int(run(sys.executable, "-c", LAUNCHER).out)
    with suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(rank)], [], [], 60)[0], "the rank still runs"


def test_scripts_run_under_the_condition() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"
    capability, threads = run(sys.executable, "-c", code).out.split()
    asked = KERNELS.get(CONDITION, {}).get("ATEN_CPU_CAPABILITY", capability)
    assert (capability, threads) == (asked.upper(), THREADS)


def test_a_commit_has_one_condition_and_an_unknown_one_is_refused() -> None:
    assert condition("by-commit") == condition("by-commit") in KERNELS
    with pytest.raises(AssertionError, match="TEST_CONDITION is one of: native, "):
        condition("avx1024")


WHERE = """
import sys
sys.stdout.write(f"{sys.executable} {sys.argv[1:]} {'lightning' in sys.modules}\\n")
"""


def test_a_program_is_a_copy_unless_a_variable_is_read_at_the_start() -> None:
    here = [sys.executable, "-c", WHERE, "a", "b c"]
    assert run(*here).out == f"{warm()} ['a', 'b c'] True\n"
    for variables in ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, {"PYTHONHASHSEED": "1"}):
        assert run(*here, env=variables).out == f"{sys.executable} ['a', 'b c'] False\n"
    assert run(*here, cold=True).out == f"{sys.executable} ['a', 'b c'] False\n"


def test_the_ranks_of_torchrun_are_copies(tmp_path: Path) -> None:
    script = tmp_path / "where.py"
    script.write_text(WHERE)
    assert torchrun(script, "a").out == f"{warm()} ['a'] True\n" * 2


@pytest.mark.parametrize(
    ("code", "ends", "message"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no data')", 1, "no data\n"),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV, ""),
        (
            "[][0]",
            1,
            'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nIndexError: ',
        ),
    ],
)
@pytest.mark.parametrize("cold", [False, True])
def test_a_copy_ends_as_a_program_does(code: str, ends: int, message: str, cold: bool) -> None:
    done = run(sys.executable, "-c", code, cold=cold)
    assert done.returncode == ends
    assert done.err.startswith(message)


WAITS = """
import os, signal, sys, time
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(75))
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("number", "ends"),
    [(signal.SIGUSR2, 75), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_reaches_the_copy(number: signal.Signals, ends: int) -> None:
    ignoring = ["sh", "-c", "trap '' USR2; exec \"$@\"", "sh"]  # as a requeued job does
    with subprocess.Popen([*ignoring, warm(), "-c", WAITS], stdout=subprocess.PIPE) as program:
        assert program.stdout
        copy = os.pidfd_open(int(program.stdout.readline()))
        program.send_signal(number)
        assert program.wait(60) == ends
        assert select.select([copy], [], [], 60)[0], "the copy still runs"
        os.close(copy)
