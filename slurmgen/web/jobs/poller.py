"""Query jobs in the background while the page is open."""

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Thread, Timer
from typing import Any, cast

from msgspec import json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from slurmgen.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    SlurmgenError,
    TransferFailed,
    Unresolved,
    shortened,
)
from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route, open_route
from slurmgen.remote.ssh.prompt import Prompt, is_in_foreground, terminal_prompt
from slurmgen.remote.transport import Closing, TimedOut, Transport
from slurmgen.status.query import query_and_save
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.rows import Row
from slurmgen.web.pages import page

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
        """Close all connections, including those in use."""
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
            if shared.users or sys.is_finalizing():  # Python waits for ever for a thread that it starts then
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
        with self._lock:
            if self._shared.get(route) is shared:
                del self._shared[route]


def _close(shared: _Shared) -> None:
    if shared.end:
        shared.end.cancel()
    if shared.transport:
        shared.transport.close()


INTERVAL = 10.0
"Seconds between two queries of a site."
LONGEST = 300.0
"Seconds until a site that is not reached is tried again, at most: some lock a user out who fails often."
LATE = 5.0
"Seconds after which a query without a reply is a problem of its site."
LEASE = 20.0
"Seconds for which a page that asks now and then is watched."
_TICK = 1.0
"Seconds between two looks at the ledger, where a command may have added a job."
_log = logging.getLogger(__name__)


class Poller:
    """Queries every site with jobs that have not ended. Its methods are called in the event loop."""

    def __init__(
        self, board: Board, connections: Connections, interval: float = INTERVAL, late: float = LATE
    ) -> None:
        self._board, self._connections, self._interval, self._late = board, connections, interval, late
        self._tabs = 0
        self._watched_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self._queries: dict[Route, asyncio.Task[None]] = {}
        self._due: dict[Route, float] = {}
        self._waits: dict[Route, float] = {}
        "How long to wait after a site that is not reached."

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Query the sites at least during this block, which is that of one tab."""
        self._tabs += 1
        self._start()
        try:
            yield
        finally:
            self._tabs -= 1

    def touch(self) -> None:
        """Query the sites for some time more: a page has asked."""
        self._watched_until = time.monotonic() + LEASE
        self._start()

    def hurry(self, route: Route) -> None:
        """Query a site soon: the user has changed something there. It may be called in any thread."""
        self._due.pop(route, None)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._tabs or time.monotonic() < self._watched_until:
                await self._begin()
                await asyncio.sleep(min(_TICK, self._interval))
        finally:
            self._task = None

    async def _begin(self) -> None:
        try:
            await run_in_threadpool(self._board.read)
            self._begin_queries()
            self._board.fail_all(None)
        except Exception as error:
            if self._board.fail_all(_shown(error)):  # once, not every second
                _log_bug(error)

    def _begin_queries(self) -> None:
        for route in self._board.active():
            if route not in self._queries and time.monotonic() >= self._due.get(route, 0):
                self._queries[route] = asyncio.create_task(self._query(route))

    async def retry(self) -> None:
        """Query the sites that were not reached now, and wait some seconds for their replies."""
        await self._replies()
        for route in self._waits:
            self._due[route] = 0.0
        await self._begin()
        await self._replies()

    async def _replies(self) -> None:
        if self._queries:
            await asyncio.wait(self._queries.values(), timeout=self._late)

    async def _query(self, route: Route) -> None:
        asked, began = asyncio.create_task(run_in_threadpool(self._ask, route)), self._board.now()
        try:
            if not (await asyncio.wait({asked}, timeout=self._late))[0]:
                await run_in_threadpool(self._board.wait, route, began)
            wait = await asked
        except Exception as error:
            _log_bug(error)
            self._board.fail(route, _shown(error))
            self._waits[route] = wait = LONGEST
        finally:
            del self._queries[route]
        self._due[route] = time.monotonic() + wait

    def _ask(self, route: Route) -> float:
        jobs = self._board.active().get(route, [])
        try:
            with self._connections.use(route) as transport:
                reports = query_and_save(transport, jobs, with_requeues=True)
        except SlurmgenError as error:
            self._board.fail(route, error)
            self._waits[route] = min(LONGEST, 2 * self._waits.get(route, self._interval))
            return self._waits[route]
        self._board.put(route, reports)
        self._waits.pop(route, None)
        return self._interval


def _shown(error: Exception) -> SlurmgenError:
    if isinstance(error, SlurmgenError):
        return error
    hint = "The terminal of the server shows its traceback. Please report it."
    return SlurmgenError(f"this is a bug in slurmgen: {shortened(repr(error))}", hint)


def _log_bug(error: Exception) -> None:
    if not isinstance(error, SlurmgenError):
        _log.error("the jobs are not queried", exc_info=error)


_HEARTBEAT = 15.0
"Seconds after which a comment is sent, so that a connection that is gone is noticed."
_RETRY = "retry: 2000\n\n"
"Milliseconds until the browser connects again."


async def stream_events(request: Request) -> Response:
    """Send changes until the tab is closed. It goes on where the tab was, also after a break."""
    return StreamingResponse(_events(request), media_type="text/event-stream")


async def _events(request: Request) -> AsyncIterator[str]:
    state = state_of(request)
    board, changed = state.board, asyncio.Event()
    loop = asyncio.get_running_loop()
    version = request.headers.get("last-event-id") or request.query_params.get("since", "")
    with board.listened(lambda: loop.call_soon_threadsafe(changed.set)), state.poller.watched():
        yield _RETRY
        while True:
            changed.clear()
            now, rows, whole = await run_in_threadpool(board.since, version)
            if rows or whole or now != version:
                version = now
                yield await run_in_threadpool(_event, request, board, version, rows, whole)
            try:
                await asyncio.wait_for(changed.wait(), _HEARTBEAT)
            except TimeoutError:
                yield ": still here\n\n"


def _event(request: Request, board: Board, version: str, rows: Sequence[Row], whole: bool) -> str:
    data = {
        "whole": whole,
        "rows": _text(request, "jobs_rows.html", rows=rows, opened=(), now=time.time()),
        "problems": _text(request, "jobs_problems.html", problems=board.problems()),
    }
    return f"id: {version}\nevent: changes\ndata: {json.encode(data).decode()}\n\n"


def _text(request: Request, template: str, **values: Any) -> str:
    return bytes(page(request, template, **values).body).decode()


class State:
    """Made once for each server."""

    def __init__(self) -> None:
        self.connections = Connections(Asking(terminal_prompt()))
        self.board = Board()
        self.poller = Poller(self.board, self.connections)
        self.submitted: dict[str, Record] = {}
        "The job of each form that submitted one, by the key of the form."

    def begin(self) -> None:
        """Read a long ledger before the first page needs it."""

        def read() -> None:
            with suppress(ConfigError):  # the page says it
                self.board.read()

        Thread(target=read, daemon=True).start()

    def end(self) -> None:
        """Close the connections to sites."""
        self.connections.close()


def state_of(request: Request) -> State:
    """What the server that answers has."""
    state: State = request.app.state.jobs
    return state
