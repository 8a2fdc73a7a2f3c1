"""Keepalive: detect a connection that went silent without ending, which takes TCP very long."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Any

import paramiko

INTERVAL = 15.0
"Seconds between two requests to the host; they also keep the connection alive in firewalls."
SILENCE = 45.0
"Seconds without a byte after which the connection counts as broken."
_POLL = 1.0


class MonitoredSocket:
    """A socket, or a channel used as one, that records when data last arrived.

    It ends the connection when more than `limit` bytes arrive; None: no limit.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.limit: int | None = None
        self.received = 0
        self.last = time.monotonic()

    @property
    def is_over_limit(self) -> bool:
        """Whether more than `limit` bytes arrived."""
        return self.limit is not None and self.received > self.limit

    def recv(self, size: int) -> bytes:
        """The bytes that arrived."""
        data: bytes = self._sock.recv(size)
        self.last = time.monotonic()
        self.received += len(data)
        return b"" if self.is_over_limit else data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Keepalive:
    """Sends the host a request regularly, and ends the connection if nothing arrives.

    paramiko's own keepalive requests no reply, so it cannot detect a silent host.
    """

    def __init__(self, connection: paramiko.Transport, sock: MonitoredSocket) -> None:
        self._connection = connection
        self._sock = sock
        self._ended = threading.Event()
        self.timed_out = False
        "Whether it ended the connection."

    def __enter__(self) -> "Keepalive":
        # Two threads: sending blocks on a connection that takes no more bytes.
        for work in (self._send, self._watch):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _send(self) -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            while not self._ended.wait(INTERVAL) and self._connection.is_active():
                self._connection.global_request("keepalive@openssh.com", wait=True)

    def _watch(self) -> None:
        while not self._ended.wait(min(_POLL, SILENCE / 4)) and self._connection.is_active():
            if time.monotonic() - self._sock.last > SILENCE:
                self.timed_out = True
                self._connection.close()
