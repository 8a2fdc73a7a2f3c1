"""This machine as a transport: for a login node one is logged in to, and for the twin."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from slurmgen.remote.transport import Closing, Completed, chunks, failed, timed_out

_PIPE = 1 << 20


class LocalTransport(Closing):
    """Runs commands here, with `environment` over our own."""

    where = "this machine"
    login = "no login: it is this machine"
    # Not a login shell: we were started from one, and /etc/profile would reset PATH and modules.
    shell = ("bash", "-c")

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = {**os.environ, **(environment or {})}

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool, self._started(argv, subprocess.PIPE, subprocess.PIPE) as process:
            # Fed by a thread as it is made: a whole project would take room and time as a file.
            stdin, process.stdin = process.stdin, None
            _widen(stdin)
            fed = pool.submit(_feed, process, stdin, input)
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise timed_out(argv, self.where, timeout) from None
            fed.result()
        return Completed(process.returncode, stdout, stderr)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        completed = yield from self.streamed(argv, timeout=timeout)
        if completed.returncode:
            raise failed(argv, self.where, completed.returncode, completed.stderr)

    def streamed(self, argv: Sequence[str], *, timeout: float) -> Generator[bytes, None, Completed]:
        """What a command writes, as it comes; returns how it ended.

        Raises:
            TimedOut: it was silent for longer.
        """
        with TemporaryFile() as stderr, self._started(argv, subprocess.DEVNULL, stderr) as process:
            assert process.stdout  # noqa: S101 (it is a pipe)
            while select.select([process.stdout], [], [], timeout)[0]:
                if not (chunk := os.read(process.stdout.fileno(), 65536)):
                    break
                yield chunk
            else:
                raise timed_out(argv, self.where, timeout)
            status = process.wait(timeout)
            stderr.seek(0)
            return Completed(status, b"", stderr.read())

    @contextlib.contextmanager
    def _started(
        self, argv: Sequence[str], stdin: int | IO[bytes], stderr: int | IO[bytes]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process in a group of its own, which ends with the block, whatever happens in it."""
        with subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self._environment,
            cwd=Path.home(),
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                _kill(process)


def _widen(pipe: IO[bytes] | None) -> None:
    """Let a pipe hold more, so that a project is packed while it is sent; all of a user hold only so much."""
    if pipe and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _feed(process: "subprocess.Popen[bytes]", stdin: IO[bytes] | None, data: bytes | Iterable[bytes]) -> None:
    """Write a command's standard input; where that breaks off, the command ends, lest it take a half."""
    assert stdin  # noqa: S101 (it is a pipe)
    try:
        stdin.writelines(chunks(data))
    except BrokenPipeError:  # the command ended without reading all; its exit status tells why
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
