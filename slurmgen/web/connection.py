"""The connections of a server: others cannot use them up."""

import asyncio
from ipaddress import ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from slurmgen.web.limits import client_of

MOST = 300
"Connections at the same time."
SECONDS = 30
PER_CLIENT = 100
"Connections that a client of a public server may have at the same time, unless it is a proxy."


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
    """Ends the connection that has been idle for longest if there are too many.

    Only a request that is let in makes one busy for long, so another user of the machine cannot keep out the
    one with the token. A browser opens an idle connection again when it needs it.
    """

    _used = 0.0

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Set up a connection as uvicorn does."""
        super().__init__(*args, **settings)
        self.conn = _WithLength(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for this connection."""
        super().connection_made(transport)
        self._used = self.loop.time()
        others = [one for one in self._opened() if one is not self]
        if len(others) >= MOST:
            idle = [one for one in others if one.cycle is None or one.cycle.response_complete]
            min(idle, key=lambda one: one._used, default=self).transport.abort()

    def on_response_complete(self) -> None:
        """Note when the connection became idle."""
        self._used = self.loop.time()
        super().on_response_complete()

    def _opened(self) -> "list[Bounded]":
        every = [one for one in self.connections if isinstance(one, Bounded)]
        return [one for one in every if not one.transport.is_closing()]


class Timed(Bounded):
    """Ends a connection if one request and its reply take too long, or if its client has too many.

    Clients that are slow, or that send nothing, could otherwise use up all connections.
    """

    _end: asyncio.TimerHandle | None = None
    _client: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time of the first request."""
        super().connection_made(transport)
        self._client = client_of(self.client)
        if self._has_too_many() and not self._is_proxy():
            transport.abort()
        else:
            self._restart()

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

    def _has_too_many(self) -> bool:
        own = [one for one in self._opened() if isinstance(one, Timed) and one._client == self._client]
        return len(own) > PER_CLIENT

    def _is_proxy(self) -> bool:
        """Whether it passes on the requests of others."""
        proxies = map(ip_network, self.config.forwarded_allow_ips or ())
        return self.client is not None and any(ip_address(self.client[0]) in proxy for proxy in proxies)
