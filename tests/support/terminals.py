"""slurmgen on a terminal of its own, as a user types."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LINES, COLUMNS = 33, 77


class Typed:
    """A command on a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", keys: int) -> None:
        self._process = process
        self._keys = keys
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def sees(self, text: str, seconds: float = 180.0) -> None:
        """Wait until the terminal shows a text, after those that were waited for before."""
        deadline = time.monotonic() + seconds
        while text not in self._text:
            assert self._more(deadline), f"{text!r} is not in {self._text!r}"
        self._text = self._text.partition(text)[2]

    def ended(self, hidden: str = "") -> int:
        """Read all, in which `hidden` must not be, and wait for the end; the exit code."""
        deadline = time.monotonic() + 180
        while self._more(deadline):
            pass
        assert not hidden or hidden not in self._text
        return self._process.wait(60)

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._keys], [], [], max(0.0, deadline - time.monotonic()))
        try:
            part = os.read(self._keys, 65536) if ready else b""
        except OSError:  # the command has closed the terminal
            part = b""
        self._text += part.decode(errors="replace").replace("\r", "")
        return bool(part)


@contextmanager
def terminal(args: Sequence[str], environ: Mapping[str, str], cwd: Path | None = None) -> Iterator[Typed]:
    """Run slurmgen in a new session on a terminal of 77 columns and 33 lines; it ends with the block."""
    keys, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(screen, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = subprocess.Popen(
        [sys.executable, "-m", "slurmgen", *args],
        stdin=screen,
        stdout=screen,
        stderr=screen,
        env={**environ, "TERM": "xterm"},
        cwd=cwd,
        preexec_fn=own_terminal,
    )
    os.close(screen)
    try:
        yield Typed(process, keys)
    finally:
        process.kill()
        process.wait(60)
        os.close(keys)
