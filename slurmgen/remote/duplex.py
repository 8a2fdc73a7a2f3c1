"""Duplex: bytes in both directions, to a program or to a port."""

import contextlib
import socket
import subprocess
from typing import Protocol

PART = 65536
_END_TIMEOUT = 5.0


class Duplex(Protocol):
    """Bytes in both directions. All methods but `write` may be called from another thread."""

    def read(self) -> bytes:
        """The next part; empty at the end, or if the connection broke."""

    def write(self, part: bytes) -> None:
        """Send a part.

        Raises:
            OSError: the other side is gone.
        """

    def end(self) -> None:
        """Send no more."""

    def close(self) -> None:
        """End both directions."""


class Socket:
    """A TCP connection of this machine."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def read(self) -> bytes:
        """See Duplex."""
        try:
            return self._socket.recv(PART)
        except OSError:
            return b""

    def write(self, part: bytes) -> None:
        """See Duplex."""
        self._socket.sendall(part)

    def end(self) -> None:
        """See Duplex."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See Duplex."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Program:
    """The standard streams of a program on this machine, such as ssh."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def ends_within(self, seconds: float) -> bool:
        """Whether the program ends by itself in that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def read(self) -> bytes:
        """See Duplex."""
        assert self._process.stdout  # noqa: S101 (it is a pipe)
        try:
            return self._process.stdout.read1(PART)  # type: ignore[attr-defined,no-any-return]
        except (OSError, ValueError):
            return b""

    def write(self, part: bytes) -> None:
        """See Duplex."""
        assert self._process.stdin  # noqa: S101 (it is a pipe)
        self._process.stdin.write(part)
        self._process.stdin.flush()

    def end(self) -> None:
        """See Duplex."""
        assert self._process.stdin  # noqa: S101 (it is a pipe)
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()

    def close(self) -> None:
        """See Duplex."""
        self.end()
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout  # noqa: S101 (it is a pipe)
        self._process.stdout.close()


def program(argv: list[str], environment: dict[str, str] | None = None) -> Program:
    """Start a program in a session of its own, so that ^C does not reach it."""
    return Program(
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    )
