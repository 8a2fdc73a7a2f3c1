"""The processes of a twin are ended."""

import subprocess
import sys
from contextlib import ExitStack

from slurmgen.twin.daemons import command_line, end

IGNORES_TERM = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
memory = bytearray(50_000_000)  # which the kernel has to take back
print("ready", flush=True)
signal.pause()
"""


def test_processes_that_are_killed_have_ended_afterwards() -> None:
    argv = [sys.executable, "-c", IGNORES_TERM]
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE)) for _ in range(4)]
        for process in started:
            assert process.stdout
            process.stdout.readline()
        end([process.pid for process in started], grace=0)
        left = [command_line(process.pid) for process in started]
    assert left == [""] * 4
