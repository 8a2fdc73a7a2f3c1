"""Commands on this machine."""

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from slurmgen.remote.frame import Frame, Framed, FramedTransport, Running
from slurmgen.remote.transport import PART, Duplex, Socket, program, unreachable

_PIPE = 1 << 20
_DIAL_TIMEOUT = 10.0


class LocalTransport(FramedTransport):
    """Runs commands on this machine, with `environment` added to the process's own."""

    login = "no login: it is this machine"
    # Not a login shell: slurmgen was started from one, and /etc/profile would reset PATH and modules.
    shell = ("bash", "-c")

    def __init__(self, environment: Mapping[str, str] | None = None, where: str = "this machine") -> None:
        self.where = where
        self._environment = {**os.environ, **(environment or {})}

    def running(
        self, framed: Callable[[], Frame], timeout: float, patience: float, *, flows: bool
    ) -> Running:
        """See FramedTransport.running."""
        frame = framed()
        return Running(frame, Process(frame.argv, self._environment), timeout, flows=flows)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """See Transport.attach."""
        with ignored_interrupt():
            status = subprocess.run(argv, env=self._environment, cwd=Path.home(), check=False).returncode
        return status if status >= 0 else 128 - status

    def dial(self, host: str, port: int) -> Duplex:
        """See Transport.dial."""
        try:
            connection = socket.create_connection((host, port), _DIAL_TIMEOUT)
        except OSError as error:
            raise unreachable(host, port, self.where, error.strerror or error) from None
        return Socket(connection)

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """See Transport.pipe."""
        frame = Frame(self.where, self.shell, argv)
        return Framed(program(frame.argv, self._environment), frame)


class Process:
    """See Session: a program on this machine, in the home folder and in a session of its own."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=Path.home(),
            start_new_session=True,
        )
        self._selector = selectors.DefaultSelector()
        for pipe, is_error in ((self._process.stdout, False), (self._process.stderr, True)):
            assert pipe  # noqa: S101 (both are pipes)
            self._selector.register(pipe, selectors.EVENT_READ, is_error)
        assert self._process.stdin  # noqa: S101 (it is a pipe)
        self._stdin = self._process.stdin
        _widen(self._stdin)

    def receive(self, seconds: float) -> list[tuple[bool, bytes]]:
        """See Session."""
        parts = []
        for key, _ in self._selector.select(seconds):
            parts.append((key.data, part := os.read(key.fd, PART)))
            if not part:
                self._selector.unregister(key.fileobj)
        return parts

    def send(self, part: bytes) -> None:
        """See Session."""
        self._stdin.write(part)
        self._stdin.flush()

    def end_input(self) -> None:
        """See Session."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def status(self, seconds: float) -> int | None:
        """See Session."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """See Session."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr, self._stdin):
            assert pipe  # noqa: S101 (all are pipes)
            with contextlib.suppress(OSError):  # there is input that the program did not read
                pipe.close()


def _widen(pipe: IO[bytes]) -> None:
    """Enlarge a pipe, so that a project is packed while it is sent; all pipes of a user share a limit."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def is_terminal() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def size() -> os.terminal_size:
    """Columns and lines of the terminal; the usual 80 and 24 if they are not known."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdin.fileno())
    return os.terminal_size((80, 24))


@contextlib.contextmanager
def ignored_interrupt() -> Iterator[None]:
    """Leave ^C to a program that shares the terminal."""
    # Not SIG_IGN, which the program would inherit.
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def raw(on_resize: Callable[[], None]) -> Iterator[None]:
    """Pass each key on as it is, ^C included, and report when the size of the terminal changes."""
    keys = sys.stdin.fileno()
    modes = termios.tcgetattr(keys)
    before = signal.signal(signal.SIGWINCH, lambda _signal, _frame: on_resize())
    try:
        tty.setraw(keys, termios.TCSADRAIN)  # keeps what has been typed already
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, modes)
        signal.signal(signal.SIGWINCH, before)
