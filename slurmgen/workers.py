"""A few processes that call functions on untrusted data, again and again, with limits on time and memory.

`sandbox` starts a process for each call, which is too slow for a server. Functions and arguments are pickled,
so they must come from slurmgen itself; a result is bytes. The kernel ends a process that reaches a limit.
"""

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, LifoQueue
from threading import Semaphore
from traceback import format_exc
from typing import IO

from slurmgen.sandbox import limit_memory

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from slurmgen.workers import main; main()"
_SIZE = 8
"Bytes of the number before each message."
_DONE, _FAILED = b"0", b"1"
"The first byte of a reply: a result follows, or a traceback."


class Busy(Exception):
    """All processes are working, and others wait already."""


class Stopped(Exception):
    """The call reached a limit."""


class _Worker:
    """One process; it ends when its stdin does."""

    def __init__(self, first: bytes) -> None:
        # -I: nothing is imported from the working directory.
        command = [sys.executable, "-I", "-c", _PROGRAM, *sys.path]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.call(first)

    def call(self, message: bytes) -> bytes:
        assert self._process.stdin  # noqa: S101
        assert self._process.stdout  # noqa: S101
        try:
            _write(self._process.stdin, message)
            reply = _read(self._process.stdout)
        except (EOFError, BrokenPipeError):
            self.close()
            raise Stopped(f"the process ended with code {self._process.returncode}") from None
        if reply.startswith(_FAILED):
            raise RuntimeError(f"a call failed in its own process:\n{reply[1:].decode()}")
        return reply[1:]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Workers:
    """Processes that start when they are needed, and again after one was ended."""

    def __init__(
        self,
        first: tuple[Callable[..., bytes], *tuple[object, ...]],
        *,
        most: int = 4,
        waiting: int = 16,
        patience: float = 1.0,
        seconds: float = 2.0,
    ) -> None:
        """Set the limits.

        Args:
            first: a call that makes a new process import what it needs, outside the limits.
            most: processes.
            waiting: calls that wait for a process.
            patience: seconds that a call waits for a process.
            seconds: seconds of one call.
        """
        self._warm, self._first = pickle.dumps(first), pickle.dumps((seconds, *first))
        self._patience = patience
        self._places = Semaphore(most + waiting)
        # The last one used is the next one: no more processes start than work at the same time.
        self._idle: LifoQueue[_Worker | None] = LifoQueue()
        for _ in range(most):
            self._idle.put(None)

    def call(self, function: Callable[..., bytes], *args: object) -> bytes:
        """The result of a function in another process. Several threads may call at once.

        Raises:
            Busy: no process is free.
            Stopped: it took too long or too much memory.
            RuntimeError: it raised an exception.
        """
        if not self._places.acquire(blocking=False):
            raise Busy
        try:
            return self._call(pickle.dumps((function, *args)))
        finally:
            self._places.release()

    def _call(self, message: bytes) -> bytes:
        try:
            worker = self._idle.get(timeout=self._patience)
        except Empty:
            raise Busy from None
        try:
            if worker is None or worker.has_ended:
                worker = _Worker(self._first)
            return worker.call(message)
        except Stopped:
            worker = None
            raise
        finally:
            self._idle.put(worker)

    def prepare(self) -> None:
        """Start a process, unless one is running, so that the first call does not wait for it."""
        with suppress(Busy, Stopped):
            self._call(self._warm)

    def close(self) -> None:
        """End the processes that are idle."""
        for _ in range(self._idle.qsize()):
            if worker := self._idle.get():
                worker.close()
            self._idle.put(None)


def main() -> None:
    """The process that `Workers` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C in the terminal of the server, which closes stdin
    source, target = sys.stdin.buffer, sys.stdout.buffer
    seconds, function, *args = pickle.loads(_read(source))  # noqa: S301  (written by `Workers`)
    _write(target, _reply(function, args))
    limit_memory()
    while True:
        try:
            function, *args = pickle.loads(_read(source))  # noqa: S301
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM ends the process
        reply = _reply(function, args)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(target, reply)


def _reply(function: Callable[..., bytes], args: list[object]) -> bytes:
    try:
        return _DONE + function(*args)
    except MemoryError:
        sys.exit(1)
    except Exception:  # a bug, which the parent reports
        return _FAILED + format_exc().encode(errors="replace")


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_SIZE, "big") + message)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    size = stream.read(_SIZE)
    message = stream.read(int.from_bytes(size, "big"))
    if len(size) < _SIZE or len(message) < int.from_bytes(size, "big"):
        raise EOFError
    return message
