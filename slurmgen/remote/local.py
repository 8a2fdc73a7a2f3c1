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
import time
import tty
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from slurmgen.remote.frame import BEGIN_TIMEOUT, Frame, Framed
from slurmgen.remote.transport import Closing, Completed, Duplex, Socket, program, unreachable

_PIPE = 1 << 20
_DIAL_TIMEOUT = 10.0
END_TIMEOUT = 1.0
"Seconds until a shell ends whose command has ended; its login files may have started what does not."


class LocalTransport(Closing):
    """Runs commands on this machine, with `environment` added to the process's own."""

    login = "no login: it is this machine"
    # Not a login shell: slurmgen was started from one, and /etc/profile would reset PATH and modules.
    shell = ("bash", "-c")

    def __init__(self, environment: Mapping[str, str] | None = None, where: str = "this machine") -> None:
        self.where = where
        self._environment = {**os.environ, **(environment or {})}

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        frame = Frame(self.where, self.shell, argv, input)
        try:
            status = executed(frame.argv, frame, self._environment, timeout)
        except TimeoutError:
            raise frame.timed_out(argv, timeout) from None
        if completed := frame.completed:
            return completed
        raise frame.unfinished(argv, status)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        frame = Frame(self.where, self.shell, argv)
        try:
            status = yield from streamed(frame.argv, frame, self._environment, timeout)
        except TimeoutError:
            raise frame.timed_out(argv, timeout) from None
        frame.check(argv, status)

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
        connection.settimeout(None)
        return Socket(connection)

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """See Transport.pipe."""
        frame = Frame(self.where, self.shell, argv)
        return Framed(program(frame.argv, self._environment), frame)


def executed(argv: Sequence[str], frame: Frame, environment: Mapping[str, str] | None, timeout: float) -> int:
    """Run a program on this machine whose output has a frame; returns its exit status.

    Raises:
        TimeoutError: it took longer than `timeout` seconds.
        ReplyTooLong, NotStarted: see `Frame.add`.
    """
    with ThreadPoolExecutor(1) as pool, _started(argv, environment, subprocess.PIPE) as process:
        # A thread writes the input as it is made: a whole project as a file would take space and time.
        stdin, process.stdin = process.stdin, None
        _widen(stdin)
        writing = pool.submit(_feed, process, stdin, frame.input())
        try:
            for pipe, part in _parts(process, frame, timeout):
                frame.add(frame.out if pipe is process.stdout else frame.err, part)
            status = _status(process, frame, timeout)
        finally:
            frame.give_up()
        writing.result()
    return status


def streamed(
    argv: Sequence[str], frame: Frame, environment: Mapping[str, str] | None, timeout: float
) -> Generator[bytes, None, int]:
    """As `executed`, but yields the output as it arrives, and has no input.

    Raises:
        TimeoutError: nothing arrived on standard output for `timeout` seconds.
        ReplyTooLong, NotStarted: see `Frame.add`.
    """
    with _started(argv, environment, subprocess.DEVNULL) as process:
        for pipe, part in _parts(process, frame, timeout, progress=process.stdout):
            if pipe is not process.stdout:
                frame.add(frame.err, part)
            elif known := frame.out.add(part):
                yield known
        return _status(process, frame, timeout)


@contextlib.contextmanager
def _started(
    argv: Sequence[str], environment: Mapping[str, str] | None, stdin: int
) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=Path.home(),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            _kill(process)


def _status(process: "subprocess.Popen[bytes]", frame: Frame, timeout: float) -> int:
    """The exit status of a process that has closed its output, or whose command has ended.

    Raises:
        TimeoutError: the process does not end, and its command has not.
    """
    try:
        return process.wait(END_TIMEOUT if frame.is_over else timeout)
    except subprocess.TimeoutExpired:
        if not frame.is_over:
            raise TimeoutError from None
        return 0


def _parts(
    process: "subprocess.Popen[bytes]", frame: Frame, timeout: float, progress: IO[bytes] | None = None
) -> Iterator[tuple[IO[bytes] | None, bytes]]:
    """Yield what a process writes, each part with its pipe, until its command ends or both are closed.

    Raises:
        TimeoutError: `timeout` seconds have passed since the start, or since the last part of `progress` once
            the command has begun.
    """
    begun = time.monotonic()
    latest, deadline = begun + min(timeout, BEGIN_TIMEOUT), begun + timeout
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            assert pipe  # noqa: S101 (both are pipes)
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and not frame.is_over:
            end = deadline if frame.out.has_begun else latest
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if part := os.read(key.fd, 65536):
                    yield key.fileobj, part  # type: ignore[misc]
                    if key.fileobj is progress and frame.out.has_begun:
                        deadline = time.monotonic() + timeout
                else:
                    selector.unregister(key.fileobj)


def _widen(pipe: IO[bytes] | None) -> None:
    """Enlarge a pipe, so that a project is packed while it is sent; all pipes of a user share a limit."""
    if pipe and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _feed(process: "subprocess.Popen[bytes]", stdin: IO[bytes] | None, parts: Iterable[bytes]) -> None:
    """Write a command's standard input. If that fails, end the command, which must not use a part of it."""
    assert stdin  # noqa: S101 (it is a pipe)
    try:
        for part in parts:
            stdin.write(part)
            stdin.flush()
    except BrokenPipeError:  # the command ended without reading all; its exit status reports why
        pass
    except BaseException:
        _kill(process)
        raise
    finally:
        with contextlib.suppress(OSError):
            stdin.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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
