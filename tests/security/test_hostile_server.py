"""Every command that uses a remote host, with a host whose replies are wrong."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.transport import TimedOut
from tests.support.hostile import ODD, OVER, Answer, drips, hostile, is_silent

JOB = ("--framework", "python", "--script", "train.py")
COMMANDS = {
    "status": ["status", "12"],
    "status --json": ["status", "12", "--json"],
    "wait": ["wait", "12", "--timeout", "1"],
    "cancel": ["cancel", "12"],
    "logs": ["logs", "12"],
    "logs -f": ["logs", "-f", "12"],
    "logs --json": ["logs", "12", "--json"],
    "fetch": ["fetch", "12"],
    "snapshots": ["snapshots"],
    "snapshots --prune": ["snapshots", "--prune"],
    "doctor": ["doctor", *JOB],
    "submit": ["submit", *JOB],
    "submit --test-only": ["submit", *JOB, "--test-only"],
}
LOGS = {"logs", "logs -f"}
MOST_MEMORY, MOST_SECONDS = 500_000, 180.0
"Kilobytes, and seconds on busy cores."
TIME_OVER = 124


class User:
    """A user with a job on that host, and with a terminal."""

    def __init__(self, folder: Path, config: str) -> None:
        self.project, self.home = folder / "project", folder / "home"
        for made in (self.project, self.home):
            made.mkdir()
        (self.project / "train.py").write_text("")
        self.route = ["--site", "generic", "--host", "far", "--ssh-config", config]
        said = {"site": "generic", "via": "ssh", "host": "far", "name": "n", "submitted": "2020-01-01"}
        Ledger().add(Record(id="12", folder="/far/run", output="%j.out", **said))

    def run(self, *args: str) -> tuple[int, str]:
        """The exit code and the output on the terminal; fails if that took too much time or memory."""
        primary, replica = os.openpty()
        process = self.started(*args, stdout=replica, stderr=replica)
        os.close(replica)
        shown = b"".join(_read(primary, process))
        return process.wait(60), shown.decode(errors="surrogateescape")

    def started(self, *args: str, stdout: int, stderr: int) -> "subprocess.Popen[bytes]":
        """A command that may not take too much memory."""
        limited = ["sh", "-c", f'ulimit -d {MOST_MEMORY}; exec "$@"', "sh"]
        return subprocess.Popen(
            [*limited, sys.executable, "-m", "slurmgen", *args, *self.route],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=self.project,
            env={**os.environ, "HOME": str(self.home), "NO_COLOR": "1", "TERM": "dumb"},
            start_new_session=True,
        )


def _read(terminal: int, process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    deadline = time.monotonic() + MOST_SECONDS
    with os.fdopen(terminal, "rb", buffering=0) as file:
        while True:
            try:
                part = file.read(65536)
            except OSError:  # the end of a terminal
                return
            if time.monotonic() > deadline:
                process.kill()
                raise AssertionError("it does not end")
            yield part


@contextmanager
def user(folder: Path, answer: Answer) -> Iterator[User]:
    (folder / "server").mkdir()
    with hostile(folder / "server", answer) as server:
        yield User(folder, server.config(folder))


def files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def run_all(one: User, names: Iterable[str], codes: set[int]) -> None:
    """Each command ends as it should, sends no control characters to the terminal, and changes no file."""
    before = files(one.project)
    with ThreadPoolExecutor(4) as pool:
        ends = dict(zip(names, pool.map(lambda name: one.run(*COMMANDS[name]), names), strict=True))
    for name, (code, shown) in ends.items():
        said = f"{name}: {shown[-3000:]}"
        assert "Traceback" not in shown, said
        assert code in codes, said
        assert code == 0 or shown, said
        lines = re.sub(r"\x1b\[[0-9;:]*[mK]|\x08", "", shown) if name in LOGS else shown
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f]", lines), said
    assert files(one.project) == before
    assert not files(one.home)
    assert len(Ledger().all()) <= 2


@pytest.mark.parametrize("answer", OVER)
def test_a_host_that_fails_is_reported(tmp_path: Path, answer: str) -> None:
    # A log may be long, and is followed over a connection that breaks.
    left_out = LOGS if answer.startswith(("writes for", "writes lines", "drops")) else set()
    with user(tmp_path, OVER[answer]) as one:
        waits = {TIME_OVER} if answer.startswith("drops") else set()  # `wait` tries again
        run_all(one, COMMANDS.keys() - left_out, {3} | waits)


@pytest.mark.parametrize("answer", ODD)
def test_an_odd_reply_breaks_nothing(tmp_path: Path, answer: str) -> None:
    with user(tmp_path, ODD[answer]) as one:
        run_all(one, COMMANDS, {0, 1, 2, 3, TIME_OVER})


def test_a_log_without_an_end_or_a_line_feed_takes_no_memory(tmp_path: Path) -> None:
    with user(tmp_path, OVER["writes for ever"]) as one:
        process = one.started("logs", "12", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout
        left = MOST_MEMORY * 1200
        while left > 0 and (part := process.stdout.read(1 << 20)):
            left -= len(part)
        process.stdout.close()
        assert (left <= 0, process.wait(60)) == (True, 0)


@pytest.mark.parametrize("answer", [drips, is_silent])
def test_a_host_that_keeps_a_command_open_times_out(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "server").mkdir()
    with (
        hostile(tmp_path / "server", answer) as server,
        connect(destination("far", server.config(tmp_path))) as transport,
        pytest.raises(TimedOut, match="within 2 seconds"),
    ):
        transport.run(["squeue"], timeout=2)


def test_a_log_whose_end_is_not_confirmed_times_out(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with (
        hostile(tmp_path / "server", is_silent) as server,
        connect(destination("far", server.config(tmp_path))) as transport,
        pytest.raises(TimedOut, match="within 2 seconds"),
    ):
        list(transport.stream(["tail"], timeout=2))
