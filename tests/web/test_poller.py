"""The queries of sites while a page is open."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

from slurmgen.errors import ConnectionFailed
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Closing, Completed, Transport
from slurmgen.status.job import Job
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.poller import Connections, Poller
from slurmgen.web.jobs.rows import Row

Result = TypeVar("Result")
Connect = Callable[[Route], Transport]


class Site(Closing):
    """A login node on which every job runs, or that is not reached."""

    where, login, shell = "made up", "none", ("bash", "-lc")

    def __init__(self) -> None:
        self.logins, self.queries, self.is_reached = 0, 0, True
        self.replies = Event()
        self.replies.set()

    def connect(self, _route: Route) -> Transport:
        self.logins += 1
        if not self.is_reached:
            raise ConnectionFailed("the network is down")
        return self  # type: ignore[return-value]

    def run(self, _argv: object, **_more: object) -> Completed:
        """The reply of squeue."""
        self.queries += 1
        assert self.replies.wait(60)
        return Completed(0, b"1|RUNNING|None|1:00|2:00:00|2026-01-01T00:00:00|n1|||||train\n")


@pytest.fixture(autouse=True)
def ledger(ledger: Ledger) -> Ledger:
    """A ledger with one job that has not ended."""
    fields = {"folder": "/f", "output": "%j.out", "submitted": "2026-01-01T00:00:00+00:00"}
    ledger.add(Record(id="1", site="olivia", via="ssh", host="h", name="train", key="k", **fields))  # type: ignore[arg-type]
    return ledger


class Page:
    """A page that is open, with its board and the only site."""

    def __init__(
        self,
        board: Board | None = None,
        connect: Connect | None = None,
        interval: float = 0.01,
        **more: float,
    ) -> None:
        self.site, self.board = Site(), board or Board()
        self.connections = Connections(connect or self.site.connect)
        self.poller = Poller(self.board, self.connections, interval=interval, **more)

    @property
    def row(self) -> Row:
        return self.board.rows()[0][0]

    @property
    def facts(self) -> list[str]:
        return [f"{problem.site}: {problem.fact}" for problem in self.board.problems()]

    async def runs(self) -> None:
        """Wait until its job is known to run, and no site has a problem."""
        await until(lambda: (self.row.state, self.facts) == ("RUNNING", []))

    async def fails(self) -> list[str]:
        """Wait until a site has a problem, or all of them; the problems."""
        await until(lambda: bool(self.facts))
        return self.facts

    def watched(self, scenario: Callable[[], Coroutine[Any, Any, Result]], tabs: int = 1) -> Result:
        """Play a scenario while tabs are open, in a thread: other tests have the event loop of this one."""

        async def watch() -> Result:
            with ExitStack() as stack:
                for _ in range(tabs):
                    stack.enter_context(self.poller.watched())
                return await scenario()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, watch()).result()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


ONCE = 3600.0
"Seconds until a second query, which no test waits for."


def test_two_tabs_share_one_login_and_one_query() -> None:
    page = Page(interval=ONCE)
    page.watched(page.runs, tabs=2)
    assert (page.site.logins, page.site.queries) == (1, 1)


def test_a_page_that_is_opened_again_soon_queries_no_site_again() -> None:
    page = Page(interval=ONCE)

    async def twice() -> None:
        await page.runs()
        with page.poller.watched():
            await asyncio.sleep(0)

    page.watched(twice)
    assert page.site.queries == 1


def test_the_last_known_states_stay_after_the_connection_to_a_site_broke() -> None:
    page = Page()

    async def cut_off() -> list[str]:
        await page.runs()
        page.site.is_reached = False
        page.connections.close()
        return await page.fails()

    assert page.watched(cut_off) == ["olivia: the network is down"]
    assert page.row.state == "RUNNING"


def test_a_site_that_is_not_reached_is_tried_again_at_once_if_the_user_asks() -> None:
    page = Page(interval=ONCE)
    page.site.is_reached = False

    async def ask_again() -> None:
        await page.fails()
        page.site.is_reached = True
        await page.poller.retry()

    page.watched(ask_again)
    assert (page.facts, page.row.state) == ([], "RUNNING")


class Faulty(Board):
    """A board with a bug, until it is corrected."""

    is_correct, calls = False, 0

    def active(self) -> dict[Route, list[Job]]:
        self.calls += 1
        if not self.is_correct:
            raise KeyError("a bug")
        return super().active()


def test_a_bug_is_shown_and_logged_once_and_the_queries_go_on_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = Faulty()
    page = Page(board)

    async def fail_and_go_on() -> list[str]:
        await until(lambda: board.calls > 3)
        facts, board.is_correct = page.facts, True
        await page.runs()
        return facts

    assert page.watched(fail_and_go_on) == [": this is a bug in slurmgen: KeyError('a bug')"]
    assert caplog.text.count("Traceback") == 1


def test_a_query_with_a_bug_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    def connect(_route: Route) -> Transport:
        raise KeyError("a bug")

    page = Page(connect=connect)
    assert page.watched(page.fails) == ["olivia: this is a bug in slurmgen: KeyError('a bug')"]
    assert "Traceback" in caplog.text


def replace(path: Path, content: bytes) -> None:
    """Write a file at once: of an empty one, SQLite would make a database."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.chmod(0o600)
    new.replace(path)


def test_a_ledger_that_cannot_be_read_is_shown(ledger: Ledger) -> None:
    page, content = Page(), ledger.path.read_bytes()
    replace(ledger.path, b"not a database" * 100)

    async def corrupt() -> list[str]:
        facts = await page.fails()
        replace(ledger.path, content)
        await page.runs()
        return facts

    (fact,) = page.watched(corrupt)
    assert "is not a database" in fact


def test_the_clock_of_a_running_job_changes_no_row() -> None:
    now = [1000.0]
    page = Page(Board(clock=lambda: now[0]))

    async def watch() -> str:
        await page.runs()
        version, before = page.board.version, page.site.queries
        now[0] += 1
        await until(lambda: page.site.queries > before + 1)
        return version

    assert page.board.since(page.watched(watch))[1] == ()


def test_a_site_that_does_not_reply_is_named_with_the_time_of_its_last_reply_within_one_query() -> None:
    now = [0.0]
    page = Page(Board(clock=lambda: now[0]), interval=ONCE, late=0.02)

    async def hang() -> tuple[float | None, list[str]]:
        await page.runs()
        await until(lambda: not page.poller._queries)
        page.site.replies.clear()
        now[0] = 7.0
        page.poller.hurry(*page.board.active())
        await page.fails()
        row = page.row
        seen = (
            page.board.problems()[0].replied,
            [row.state, "old" if row.is_old else "", row.elapsed_text(99)],
        )
        page.site.replies.set()
        await page.runs()
        return seen

    assert page.watched(hang) == (0.0, ["RUNNING", "old", "00:01:00"])
    assert not page.row.is_old


def test_a_page_that_asks_now_and_then_is_watched() -> None:
    page = Page(interval=ONCE)

    async def ask_twice() -> None:
        page.poller.touch()
        page.poller.touch()
        await page.runs()

    page.watched(ask_twice, tabs=0)
    assert (page.site.logins, page.site.queries) == (1, 1)
