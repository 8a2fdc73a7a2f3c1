"""Queries the sites while a page is open: one poller for all tabs, and one login for each site."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from slurmgen.errors import SlurmgenError, shortened
from slurmgen.jobs.status import query_and_save
from slurmgen.remote.route import Route
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.connections import Connections

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
        """Read the ledger, and begin the queries that are due."""
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
        """Wait some seconds for the queries that have no reply yet."""
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
        """Query a site; returns how long to wait until the next query."""
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
    """An error as the page shows it."""
    if isinstance(error, SlurmgenError):
        return error
    hint = "The terminal of the server shows its traceback. Please report it."
    return SlurmgenError(f"this is a bug in slurmgen: {shortened(repr(error))}", hint)


def _log_bug(error: Exception) -> None:
    if not isinstance(error, SlurmgenError):
        _log.error("the jobs are not queried", exc_info=error)
