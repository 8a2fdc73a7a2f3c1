"""What happens on a real terminal, in the foreground and in the background."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

# A shell in a few words: it owns the terminal and runs a command in a group of its own.
LEADER = """
import fcntl, os, signal, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
def in_foreground():  # before the command uses the terminal
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
prepare = in_foreground if sys.argv[1] == "foreground" else None
job = subprocess.Popen(sys.argv[2:], process_group=0, preexec_fn=prepare)
_, status = os.waitpid(job.pid, os.WUNTRACED)
screen_text = "stopped" if os.WIFSTOPPED(status) else f"ended {os.waitstatus_to_exitcode(status)}"
job.kill()
is_echoing = bool(termios.tcgetattr(0)[3] & termios.ECHO)
print(f"LEADER: {screen_text}, echo {is_echoing}", file=sys.stderr)
"""
ASK = """
import sys
from slurmgen.errors import SlurmgenError
from slurmgen.remote.ssh.prompt import terminal_prompt
ask = terminal_prompt()
ask.show("approve it")
try:
    print("answer", ask("Code: "))
except SlurmgenError as error:
    print(error)
"""


class Screen:
    """A terminal with a command on it."""

    def __init__(self, place: str, *command: str, **options: object) -> None:
        self.master, slave = pty.openpty()
        self.leader = subprocess.Popen(
            [sys.executable, "-c", LEADER, place, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        os.close(slave)
        self.text = ""

    def until(self, words: str) -> str:
        """All that was written when these words have come."""
        return self.until_count(words, 1)

    def until_count(self, words: str, number: int) -> str:
        """All that was written when these words have come so often."""
        deadline = time.monotonic() + 180
        while self.text.count(words) < number:
            assert time.monotonic() < deadline, self.text
            if select.select([self.master], [], [], 1)[0]:
                with suppress(OSError):
                    self.text += os.read(self.master, 4096).decode()
        return self.text

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.leader.pid, signal.SIGKILL)
        self.leader.wait()
        os.close(self.master)


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """Variables in which a job is known to have completed."""
    (tmp_path / "squeue").write_text("#!/bin/sh\necho '12|COMPLETED|None|0:01|1:00|N/A|n1|||||a'\n")
    (tmp_path / "squeue").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_a_command_in_the_background_is_not_stopped(slurm: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slurmgen", "status", "12", "--site", "generic", "--via", "local"]
    with closing(Screen("background", *command, env=slurm, cwd=tmp_path)) as screen:
        screen_text = screen.until("LEADER: ")
        assert "job 12 (a) is COMPLETED" in screen_text
        assert "ended 0" in screen.until("echo True")


def test_an_answer_is_not_echoed_and_later_typing_is() -> None:
    with closing(Screen("foreground", sys.executable, "-c", ASK)) as screen:
        screen.until("Code: ")
        screen.type("hunter2\n")
        screen_text = screen.until("echo True")
    assert screen_text.count("hunter2") == 1  # that is our own print
    assert screen_text.startswith("approve it\r\n")
    assert "ended 0" in screen_text


def test_an_unanswered_prompt_is_reported() -> None:
    with closing(Screen("foreground", sys.executable, "-c", ASK)) as screen:
        screen.until("Code: ")
        screen.type("\x04")
        screen_text = screen.until("echo True")
    assert "there was no answer to `Code:`" in screen_text
    assert "ended 0" in screen_text
