"""Connections to sites that stay open between requests, and are shared by the table, logs and actions.

A site that needs a password or code asks for it in the terminal of the server, once.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any, cast

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, TransferFailed, Unresolved
from slurmgen.remote.route import Route, open_route
from slurmgen.remote.ssh.prompt import Prompt, is_in_foreground
from slurmgen.remote.transport import Closing, TimedOut, Transport

IDLE = 300.0
"Seconds after the last use, after which a connection is closed."
_BROKEN = (ConnectionFailed, TransferFailed, TimedOut, Unresolved)
"After these, the next user gets a new connection."
REFUSED = 300.0
"Seconds in which a refused login is not repeated: many hosts lock out a user after some of them."


_BY_USER = re.compile("password|keyboard-interactive")
"The logins that need the user; such a connection stays open."


class Asking:
    """Logs in; the first login to a site may prompt, in the terminal of a server in the foreground."""

    def __init__(self, prompt: Prompt | None) -> None:
        self._prompt, self._asked, self._asking = prompt, set[str](), Lock()

    def __call__(self, route: Route) -> Transport:
        """A new connection.

        Raises:
            SlurmgenError: as for `open_route`.
        """
        if not self._prompt or route.site in self._asked or not is_in_foreground():
            return open_route(route)
        with self._asking:  # one site at a time
            try:
                transport = open_route(route, self._prompt)
            except AuthenticationFailed:
                self._asked.add(route.site)
                raise
        self._asked.add(route.site)
        return transport

    def forgive(self) -> None:
        """Prompt again."""
        self._asked.clear()


class _Shared:
    """One connection: it is opened once, for all users of it."""

    def __init__(self) -> None:
        self.opening = Lock()
        self.transport: Transport | None = None
        self.users = 0
        self.end: Timer | None = None


class _Borrowed(Closing):
    """A connection that others use too: its end does not close it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connections:
    """The connections, one for each route. Every method blocks: call it in a worker thread."""

    def __init__(
        self,
        connect: Callable[[Route], Transport] | Asking = open_route,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._idle, self._clock = connect, idle, clock
        self._lock = Lock()
        self._shared: dict[Route, _Shared] = {}
        self._refused: dict[Route, tuple[float, AuthenticationFailed]] = {}
        "The last login that each host refused, and when."

    @contextmanager
    def use(self, route: Route) -> Iterator[Transport]:
        """The connection to a site, opened if it is not. Several threads may use it at a time.

        It stays open if a user of it closes it.

        Raises:
            SlurmgenError: the site is not reached; its text says why.
        """
        shared = self._joined(route)
        try:
            with shared.opening:
                transport = shared.transport = shared.transport or self._logged_in(route)
            yield cast(Transport, _Borrowed(transport))
        except _BROKEN:
            self._forget(route, shared)
            raise
        finally:
            self._left(route, shared)

    def forgive(self) -> None:
        """Log in again at the next use, also to hosts that have refused it: the user asks for that."""
        self._refused.clear()
        if isinstance(self._connect, Asking):
            self._connect.forgive()

    def close(self) -> None:
        """Close all connections, also those in use."""
        with self._lock:
            shared, self._shared = list(self._shared.values()), {}
        for one in shared:
            _close(one)

    def _logged_in(self, route: Route) -> Transport:
        """A new connection; soon after a refused login, the same refusal."""
        at, refusal = self._refused.get(route, (0.0, None))
        if refusal and self._clock() - at < REFUSED:
            raise AuthenticationFailed(refusal.fact, refusal.hint)
        try:
            return self._connect(route)
        except AuthenticationFailed as error:
            again = f"The page tries again after {REFUSED / 60:.0f} minutes, or when you press Try again."
            refusal = AuthenticationFailed(error.fact, f"{error.hint} {again}".lstrip())
            self._refused[route] = self._clock(), refusal
            raise

    def _joined(self, route: Route) -> _Shared:
        with self._lock:
            shared = self._shared.setdefault(route, _Shared())
            shared.users += 1
            if shared.end:
                shared.end.cancel()
            return shared

    def _left(self, route: Route, shared: _Shared) -> None:
        """Close the connection some time after the last user; at once, if it has failed."""
        with self._lock:
            shared.users -= 1
            if shared.users:
                return
            if self._shared.get(route) is shared and shared.transport:
                if _BY_USER.search(shared.transport.login):
                    return
                shared.end = Timer(self._idle, self._expire, (route, shared))
                shared.end.daemon = True
                shared.end.start()
                return
        self._forget(route, shared)
        _close(shared)

    def _expire(self, route: Route, shared: _Shared) -> None:
        with self._lock:
            if shared.users:
                return
            self._shared.pop(route, None)
        _close(shared)

    def _forget(self, route: Route, shared: _Shared) -> None:
        """Let the next user open a new connection."""
        with self._lock:
            if self._shared.get(route) is shared:
                del self._shared[route]


def _close(shared: _Shared) -> None:
    if shared.end:
        shared.end.cancel()
    if shared.transport:
        shared.transport.close()
