"""tests/guide/running.py: what a command leaves behind."""

import os
import select
import sys
from contextlib import suppress

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
