"""The connections of a public server."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 30


class Timed(H11Protocol):
    """Ends a connection if one request and its reply take too long, so that slow clients do not fill it."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time of the first request."""
        super().connection_made(transport)
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
