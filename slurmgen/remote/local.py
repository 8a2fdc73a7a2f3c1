"""This machine as a transport: a login node on which slurmgen itself runs, or a twin."""

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from slurmgen.remote.duplex import Duplex, Socket, program
from slurmgen.remote.terminal import ignored_interrupt
from slurmgen.remote.transport import Closing, Completed, Reply, chunks, failed, timed_out, unreachable

_PIPE = 1 << 20
_DIAL_TIMEOUT = 10.0


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
        with ThreadPoolExecutor(1) as pool, self._started(argv, subprocess.PIPE) as process:
            # A thread writes the input as it is made: a whole project as a file would take space and time.
            stdin, process.stdin = process.stdin, None
            _widen(stdin)
            writing = pool.submit(_feed, process, stdin, input)
            replies = {process.stdout: Reply(self.where), process.stderr: Reply(self.where)}
            deadline = time.monotonic() + timeout
            try:
                for pipe, part in _parts(process, timeout):
                    replies[pipe].add(part)
                process.wait(max(0.0, deadline - time.monotonic()))
            except (TimeoutError, subprocess.TimeoutExpired):
                raise timed_out(argv, self.where, timeout) from None
            writing.result()
        stdout, stderr = map(bytes, replies.values())
        return Completed(process.returncode, stdout, stderr)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        completed = yield from self.streamed(argv, timeout=timeout)
        if completed.returncode:
            raise failed(argv, self.where, completed.returncode, completed.stderr)

    def attach(self, argv: Sequence[str]) -> int:
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
        return program(list(argv), self._environment)

    def streamed(self, argv: Sequence[str], *, timeout: float) -> Generator[bytes, None, Completed]:
        """As `stream`, but returns how the command ended.

        Raises:
            TimedOut, ReplyTooLong: as `stream`.
        """
        errors = Reply(self.where)
        with self._started(argv, subprocess.DEVNULL) as process:
            try:
                for pipe, part in _parts(process, timeout, progress=process.stdout):
                    if pipe is process.stdout:
                        yield part
                    else:
                        errors.add(part)
                return Completed(process.wait(timeout), b"", bytes(errors))
            except (TimeoutError, subprocess.TimeoutExpired):
                raise timed_out(argv, self.where, timeout) from None

    @contextlib.contextmanager
    def _started(self, argv: Sequence[str], stdin: int) -> Iterator["subprocess.Popen[bytes]"]:
        """A process in its own process group, which ends with the block."""
        with subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=Path.home(),
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                _kill(process)


def _parts(
    process: "subprocess.Popen[bytes]", timeout: float, progress: IO[bytes] | None = None
) -> Iterator[tuple[IO[bytes] | None, bytes]]:
    """Yield what a process writes, each part with its pipe, until both pipes are closed.

    Raises:
        TimeoutError: `timeout` seconds have passed since the start, or since the last part of `progress`.
    """
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            assert pipe  # noqa: S101 (both are pipes)
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if part := os.read(key.fd, 65536):
                    yield key.fileobj, part  # type: ignore[misc]
                    if key.fileobj is progress:
                        deadline = time.monotonic() + timeout
                else:
                    selector.unregister(key.fileobj)


def _widen(pipe: IO[bytes] | None) -> None:
    """Enlarge a pipe, so that a project is packed while it is sent; all pipes of a user share a limit."""
    if pipe and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _feed(process: "subprocess.Popen[bytes]", stdin: IO[bytes] | None, data: bytes | Iterable[bytes]) -> None:
    """Write a command's standard input. If that fails, end the command, which must not use a part of it."""
    assert stdin  # noqa: S101 (it is a pipe)
    try:
        stdin.writelines(chunks(data))
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
