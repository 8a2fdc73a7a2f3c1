"""Call functions in other processes, with limits on time, memory and files, and in threads.

A process is for work on untrusted text, such as the templates of a cloned repository: the kernel ends one
that reaches a limit. Functions and arguments are pickled, so they must come from slurmgen itself; a result is
bytes.
"""

import faulthandler
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Semaphore, Thread
from traceback import format_exc
from typing import IO, TypeVar

Result = TypeVar("Result")

MEMORY = 250_000_000
"Bytes, beyond what the interpreter and its files take at the start."

Call = tuple[Callable[..., bytes], *tuple[object, ...]]
"A function and its arguments."

_TIMEOUT = 60.0
"Seconds until a process that does not use the CPU is ended; imports take long on some file systems."

_SIZE = 8
"Bytes of the number before each message."
_DONE, _FAILED = b"0", b"1"
"The first byte of a reply: a result follows, or a traceback."


class Busy(Exception):
    """All processes are working, and others wait already."""


class Stopped(Exception):
    """The call reached a limit, or its process crashed; `log` is what `call_once` read from its stderr."""

    def __init__(self, fact: str = "", log: str = "") -> None:
        super().__init__(fact)
        self.log = log


def call_once(first: Call, function: Callable[..., bytes], *args: object, cpu_seconds: float) -> bytes:
    """The result of a function in a process of its own, which `first` prepares outside the limits.

    Raises:
        Stopped: it took too long, or the process crashed.
        RuntimeError: it raised an exception.
    """
    messages = [pickle.dumps((signal.ITIMER_PROF, cpu_seconds, *first)), pickle.dumps((function, *args))]
    data = b"".join(map(_framed, messages))
    try:
        done = subprocess.run(_command(), input=data, capture_output=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Stopped(f"took longer than {_TIMEOUT:.0f} s", _decoded(error.stderr)) from None
    if done.returncode == -signal.SIGPROF:
        raise Stopped(f"took longer than {cpu_seconds:.1f} s of CPU time", _decoded(done.stderr))
    if done.returncode < 0:
        fact = f"ended its process with {signal.Signals(-done.returncode).name}"
        raise Stopped(fact, _decoded(done.stderr))
    replies = BytesIO(done.stdout)
    try:
        _read(replies)
        return _result(_read(replies))
    except EOFError:
        raise RuntimeError(f"{function.__qualname__} did not reply:\n{_decoded(done.stderr)}") from None


def _decoded(log: bytes | None) -> str:
    return (log or b"").decode(errors="replace")


class Workers:
    """Processes that start when they are needed, and again after one was ended."""

    def __init__(
        self, first: Call, *, most: int = 4, waiting: int = 16, patience: float = 1.0, seconds: float = 2.0
    ) -> None:
        """Set the limits.

        Args:
            first: a call that makes a new process import what it needs, outside the limits.
            most: processes.
            waiting: calls that wait for a process.
            patience: seconds that a call waits for a process.
            seconds: seconds of one call.
        """
        self._warm, self._first = pickle.dumps(first), pickle.dumps((signal.ITIMER_REAL, seconds, *first))
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


class _Worker:
    """One process; it ends when its stdin does."""

    def __init__(self, first: bytes) -> None:
        self._process = subprocess.Popen(
            _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.call(first)

    def call(self, message: bytes) -> bytes:
        assert self._process.stdin  # noqa: S101
        assert self._process.stdout  # noqa: S101
        try:
            _write(self._process.stdin, message)
            return _result(_read(self._process.stdout))
        except (EOFError, BrokenPipeError):
            self.close()
            raise Stopped(f"the process ended with code {self._process.returncode}") from None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _command() -> list[str]:
    # -I: nothing is imported from the working directory.
    program = "import sys; sys.path[:] = sys.argv[1:]; from slurmgen.worker import main; main()"
    return [sys.executable, "-I", "-c", program, *sys.path]


def main() -> None:
    """The process that a call starts; the end of stdin ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C in the terminal of the caller, which closes stdin
    source, target = sys.stdin.buffer, sys.stdout.buffer
    timer, seconds, *first = pickle.loads(_read(source))  # noqa: S301  (written by the caller)
    _write(target, _reply(*first))
    faulthandler.enable()
    # The kernel delivers the signal and faulthandler writes the stack even within one long operation.
    end = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}[timer]
    faulthandler.register(end, all_threads=False, chain=True)
    _limit_memory()
    with suppress(EOFError):
        while True:
            call = pickle.loads(_read(source))  # noqa: S301
            signal.setitimer(timer, seconds)  # its signal ends the process
            reply = _reply(*call)
            signal.setitimer(timer, 0)
            _write(target, reply)


def _reply(function: Callable[..., bytes], *args: object) -> bytes:
    try:
        return _DONE + function(*args)
    except MemoryError:
        sys.exit(1)
    except Exception:  # a bug, which the caller reports
        return _FAILED + format_exc().encode(errors="replace")


def _result(reply: bytes) -> bytes:
    if reply.startswith(_FAILED):
        raise RuntimeError(f"a call failed in its own process:\n{reply[1:].decode()}")
    return reply[1:]


def _limit_memory() -> None:
    """Let this process take no more than `MEMORY` bytes, and write no file."""
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    with suppress(OSError):  # not Linux: elsewhere the address space cannot be limited reliably
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY
    for limit, most in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (value, value))


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(_SIZE, "big") + message


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(_framed(message))
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    size = stream.read(_SIZE)
    message = stream.read(int.from_bytes(size, "big"))
    if len(size) < _SIZE or len(message) < int.from_bytes(size, "big"):
        raise EOFError
    return message


def in_thread(action: Callable[[], Result]) -> Future[Result]:
    """Call a function in a thread that Python does not wait for at exit, as it does for one of a pool."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # `result` raises it
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
