"""The queries of sites while a page is open."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
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

Result = TypeVar("Result")


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


def run(scenario: Coroutine[Any, Any, Result]) -> Result:
    """Run it in a thread: the browser of other tests has the event loop of this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scenario).result()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def state(board: Board) -> str:
    return board.rows()[0][0].state


def test_two_tabs_share_one_login_and_one_query() -> None:
    site, board = Site(), Board()
    poller = Poller(board, Connections(site.connect), interval=3600)

    async def two_tabs() -> None:
        with poller.watched(), poller.watched():
            await until(lambda: state(board) == "RUNNING")

    run(two_tabs())
    assert (site.logins, site.queries) == (1, 1)


def test_a_page_that_is_opened_again_soon_queries_no_site_again() -> None:
    site, board = Site(), Board()
    poller = Poller(board, Connections(site.connect), interval=3600)

    async def twice() -> None:
        with poller.watched():
            await until(lambda: state(board) == "RUNNING")
        with poller.watched():
            await asyncio.sleep(0)

    run(twice())
    assert site.queries == 1


def test_the_last_known_states_stay_after_the_connection_to_a_site_broke() -> None:
    site, board = Site(), Board()
    connections = Connections(site.connect)
    poller = Poller(board, connections, interval=0.01)

    async def cut_off() -> None:
        with poller.watched():
            await until(lambda: state(board) == "RUNNING")
            site.is_reached = False
            connections.close()
            await until(lambda: bool(board.problems()))

    run(cut_off())
    assert [(problem.site, problem.fact) for problem in board.problems()] == [
        ("olivia", "the network is down")
    ]
    assert state(board) == "RUNNING"


def test_a_site_that_is_not_reached_is_tried_again_at_once_if_the_user_asks() -> None:
    site, board = Site(), Board()
    poller = Poller(board, Connections(site.connect), interval=3600)
    site.is_reached = False

    async def ask_again() -> None:
        with poller.watched():
            await until(lambda: bool(board.problems()))
            site.is_reached = True
            await poller.retry()

    run(ask_again())
    assert (board.problems(), state(board)) == ([], "RUNNING")


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
    site, board = Site(), Faulty()
    poller = Poller(board, Connections(site.connect), interval=0.01)

    async def fail_and_go_on() -> list[str]:
        with poller.watched():
            await until(lambda: board.calls > 3)
            facts = [problem.fact for problem in board.problems()]
            board.is_correct = True
            await until(lambda: (state(board), board.problems()) == ("RUNNING", []))
            return facts

    assert run(fail_and_go_on()) == ["this is a bug in slurmgen: KeyError('a bug')"]
    assert caplog.text.count("Traceback") == 1


def test_a_query_with_a_bug_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    board = Board()

    def connect(_route: Route) -> Transport:
        raise KeyError("a bug")

    async def fail() -> list[str]:
        with Poller(board, Connections(connect), interval=0.01).watched():
            await until(lambda: bool(board.problems()))
            return [f"{problem.site}: {problem.fact}" for problem in board.problems()]

    assert run(fail()) == ["olivia: this is a bug in slurmgen: KeyError('a bug')"]
    assert "Traceback" in caplog.text


def replace(path: Path, content: bytes) -> None:
    """Write a file at once: of an empty one, SQLite would make a database."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.chmod(0o600)
    new.replace(path)


def test_a_ledger_that_cannot_be_read_is_shown(ledger: Ledger) -> None:
    board, content = Board(), ledger.path.read_bytes()
    replace(ledger.path, b"not a database" * 100)
    poller = Poller(board, Connections(Site().connect), interval=0.01)

    async def corrupt() -> list[str]:
        with poller.watched():
            await until(lambda: bool(board.problems()))
            facts = [problem.fact for problem in board.problems()]
            replace(ledger.path, content)
            await until(lambda: (state(board), board.problems()) == ("RUNNING", []))
            return facts

    (fact,) = run(corrupt())
    assert "is not a database" in fact


def test_the_clock_of_a_running_job_changes_no_row() -> None:
    now = [1000.0]
    site, board = Site(), Board(clock=lambda: now[0])
    poller = Poller(board, Connections(site.connect), interval=0.01)

    async def watch() -> str:
        with poller.watched():
            await until(lambda: state(board) == "RUNNING")
            version, before = board.version, site.queries
            now[0] += 1
            await until(lambda: site.queries > before + 1)
            return version

    assert board.since(run(watch())).rows == ()


def test_a_site_that_does_not_reply_is_named_with_the_time_of_its_last_reply_within_one_query() -> None:
    now, site = [0.0], Site()
    board, connections = Board(clock=lambda: now[0]), Connections(site.connect)
    poller = Poller(board, connections, interval=3600, late=0.02)

    async def hang() -> tuple[float | None, list[str]]:
        with poller.watched():
            await until(lambda: state(board) == "RUNNING" and not poller._queries)
            site.replies.clear()
            now[0] = 7.0
            poller.hurry(*board.active())
            await until(lambda: bool(board.problems()))
            row = board.rows()[0][0]
            seen = board.problems()[0].replied, [row.state, "old" if row.is_old else "", row.elapsed_text(99)]
            site.replies.set()
            await until(lambda: board.problems() == [])
            return seen

    assert run(hang()) == (0.0, ["RUNNING", "old", "00:01:00"])
    assert not board.rows()[0][0].is_old


def test_a_page_that_asks_now_and_then_is_watched() -> None:
    site, board = Site(), Board()
    poller = Poller(board, Connections(site.connect), interval=3600)

    async def ask_twice() -> None:
        poller.touch()
        poller.touch()
        await until(lambda: state(board) == "RUNNING")

    run(ask_twice())
    assert (site.logins, site.queries) == (1, 1)
