"""Is the host still there? A link can go silent without ending, and TCP takes very long to notice."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Any

import paramiko

INTERVAL = 15.0
"Seconds between two questions to the host; they also keep firewalls from forgetting us."
SILENCE = 45.0
"Seconds without a byte after which the link counts as broken."
_LOOK = 1.0


class Heard:
    """A socket, or a channel used as one, that remembers when anything last came.

    It ends the connection when more than `limit` bytes came; None: there is no limit.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.limit: int | None = None
        self.received = 0
        self.last = time.monotonic()

    @property
    def is_over_limit(self) -> bool:
        """Whether more bytes came than may."""
        return self.limit is not None and self.received > self.limit

    def recv(self, size: int) -> bytes:
        """What came."""
        data: bytes = self._sock.recv(size)
        self.last = time.monotonic()
        self.received += len(data)
        return b"" if self.is_over_limit else data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Pulse:
    """Asks the host for a sign of life, and ends a connection on which nothing comes any more.

    paramiko's own keep-alive wants no answer, so that it cannot tell a host from a hole.
    """

    def __init__(self, connection: paramiko.Transport, heard: Heard) -> None:
        self._connection = connection
        self._heard = heard
        self._over = threading.Event()
        self.stopped = False
        "Whether the link went silent."

    def __enter__(self) -> "Pulse":
        # Two threads: on a link that takes no more bytes, the one that asks is stuck.
        for work in (self._ask, self._watch):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _ask(self) -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            while not self._over.wait(INTERVAL) and self._connection.is_active():
                self._connection.global_request("keepalive@openssh.com", wait=True)

    def _watch(self) -> None:
        while not self._over.wait(min(_LOOK, SILENCE / 4)) and self._connection.is_active():
            if time.monotonic() - self._heard.last > SILENCE:
                self.stopped = True
                self._connection.close()
