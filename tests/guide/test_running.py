"""tests/guide/running.py: what a command leaves behind, and under which condition it runs."""

import os
import select
import sys
from contextlib import suppress

import pytest

from tests.conftest import CONDITION, KERNELS, THREADS, condition

from .running import run

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
