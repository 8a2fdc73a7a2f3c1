"""Queries the sites while a page is open: one poller for all tabs, and one login for each site."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool

from slurmgen.errors import ConfigError, SlurmgenError
from slurmgen.jobs.status import query_site, save_final_states
from slurmgen.remote.route import Route
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.connections import Connections

INTERVAL = 10.0
"Seconds between two queries of a site."
LONGEST = 300.0
"Seconds until a site that is not reached is tried again, at most: some lock a user out who fails often."
_TICK = 1.0
"Seconds between two looks at the ledger, where a command may have added a job."
_log = logging.getLogger(__name__)


class Poller:
    """Queries every site with jobs that have not ended. Its methods are called in the event loop."""

    def __init__(self, board: Board, connections: Connections, interval: float = INTERVAL) -> None:
        self._board, self._connections, self._interval = board, connections, interval
        self._tabs = 0
        self._task: asyncio.Task[None] | None = None
        self._queries: dict[Route, asyncio.Task[None]] = {}
        self._due: dict[Route, float] = {}
        self._waits: dict[Route, float] = {}
        "How long to wait after a site that is not reached."

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Query the sites at least during this block, which is that of one tab."""
        self._tabs += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._tabs -= 1
            if not self._tabs:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            with suppress(ConfigError):  # the page itself says that the ledger cannot be used
                await run_in_threadpool(self._board.read)
            for route in self._board.active():
                if route not in self._queries and time.monotonic() >= self._due.get(route, 0):
                    self._queries[route] = asyncio.create_task(self._query(route))
            await asyncio.sleep(min(_TICK, self._interval))

    async def retry(self) -> None:
        """Query the sites that were not reached now, and wait for their replies."""
        for route in list(self._waits):
            if route not in self._queries:
                self._queries[route] = asyncio.create_task(self._query(route))
        await asyncio.gather(*self._queries.values(), return_exceptions=True)

    async def _query(self, route: Route) -> None:
        try:
            wait = await run_in_threadpool(self._ask, route)
        except Exception:
            _log.exception("the query of %s failed", route.site)
            wait = LONGEST
        finally:
            del self._queries[route]
        self._due[route] = time.monotonic() + wait

    def _ask(self, route: Route) -> float:
        """Query a site; returns how long to wait until the next query."""
        jobs = self._board.active().get(route, [])
        try:
            with self._connections.use(route) as transport:
                reports = query_site(transport, jobs, with_requeues=True)
        except SlurmgenError as error:
            self._board.fail(route, error)
            self._waits[route] = min(LONGEST, 2 * self._waits.get(route, self._interval))
            return self._waits[route]
        save_final_states(reports)
        self._board.put(route, reports)
        self._waits.pop(route, None)
        return self._interval
