"""The connections of a server: others cannot use them up."""

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from slurmgen.web.limits import client_of

SECONDS = 30
"Until a request of a public server is received and answered."


class _WithLength(h11.Connection):
    """Refuses a body in chunks, of which each may be one byte: to parse a million of them takes seconds.

    Browsers and proxies send the length of a body.
    """

    def next_event(self) -> Any:
        """What was received next."""
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("a body in chunks")
        return event


class Bounded(H11Protocol):
    """Ends one connection if there are too many: the longest unused one of the client that has most.

    A connection is in use while a request that was received whole is answered; so a client that sends slowly
    keeps out no other client. A browser opens a connection again when it needs it.
    """

    most = 300
    "Connections at the same time."
    _used = 0.0
    _client = ""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Set up a connection as uvicorn does."""
        super().__init__(*args, **settings)
        self.conn = _WithLength(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for this connection."""
        super().connection_made(transport)
        self._used, self._client = self.loop.time(), client_of(self.client)
        others = [one for one in self.connections if isinstance(one, Bounded) and one is not self]
        others = [one for one in others if not one.transport.is_closing()]
        if len(others) >= self.most:
            counts = Counter(one._client for one in others)
            unused = [one for one in others if not one.is_in_use()]
            min(unused, key=lambda one: (-counts[one._client], one._used), default=self).transport.abort()

    def is_in_use(self) -> bool:
        """Whether a request is being answered; on this server, only one that is let in takes long."""
        return bool(self.cycle and not self.cycle.response_complete and not self.cycle.more_body)

    def on_response_complete(self) -> None:
        """Note when the connection became idle."""
        self._used = self.loop.time()
        super().on_response_complete()


class Timed(Bounded):
    """Ends a connection if one request and its reply take too long, also while it sends or reads slowly."""

    most = 100
    "Each may hold a body in memory."
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time of the first request."""
        super().connection_made(transport)
        self._restart()

    def is_in_use(self) -> bool:
        """Never: replies are short, and a client that reads slowly must keep out no other one."""
        return False

    def on_response_complete(self) -> None:
        """Start the time of the next request."""
        self._restart()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        if self._end:
            self._end.cancel()
        super().connection_lost(exc)

    def _restart(self) -> None:
        if self._end:
            self._end.cancel()
        self._end = self.loop.call_later(SECONDS, self.transport.abort)
