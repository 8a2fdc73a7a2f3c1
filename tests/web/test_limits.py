"""What a public server allows one client."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message

from slurmgen.web import Settings, create_app
from slurmgen.web.limits import _CLIENTS, InTime, Limits, RateLimit
from tests.support.web import PUBLIC


def test_a_large_body_is_refused() -> None:
    with TestClient(create_app(Settings(limits=PUBLIC))) as client:
        assert client.post("/", content=b"x" * 1_000_001).status_code == 413


def _ok(app: RateLimit, client: str, number: int = 1) -> int:
    return sum(app._admits(client) for _ in range(number))


def test_a_client_has_a_burst_and_then_its_rate() -> None:
    now = [0.0]
    limit = RateLimit(PlainTextResponse("ok"), 20, lambda: now[0])
    assert _ok(limit, "192.0.2.1", 100) == 60
    now[0] = 1
    assert _ok(limit, "192.0.2.1", 100) == 20
    assert _ok(limit, "192.0.2.2", 100) == 60


def test_many_clients_do_not_fill_the_memory() -> None:
    limit = RateLimit(PlainTextResponse("ok"), 20, lambda: 0)
    for number in range(2 * _CLIENTS):
        limit._admits(str(number))
    assert len(limit._full) == _CLIENTS


def _status(app: ASGIApp, address: str) -> int:
    return TestClient(app, client=(address, 1)).get("/").status_code


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("192.0.2.1", "192.0.2.1", 429),
        ("192.0.2.1", "192.0.2.2", 200),
        ("2001:db8::1", "2001:db8::2:3", 429),
        ("2001:db8::1", "2001:db8:0:1::1", 200),
        ("unix", "x" * 20_000, 429),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(first: str, second: str, expected: int) -> None:
    limit = RateLimit(PlainTextResponse("ok"), 1, lambda: 0)
    assert [_status(limit, first) for _ in range(3)] == [200] * 3
    assert _status(limit, second) == expected


@pytest.fixture
def released() -> Iterator[Event]:
    """Ends the slow handlers."""
    event = Event()
    yield event
    event.set()


@pytest.fixture
def slow(released: Event) -> Starlette:
    """An application with an address that answers only when it is released, and another one."""

    def wait(_request: Request) -> Response:
        released.wait()
        return PlainTextResponse("late")

    async def answer(_request: Request) -> Response:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/slow", wait), Route("/quick", answer)])


def test_a_reply_that_takes_too_long_is_dropped_and_too_many_are_refused(
    slow: Starlette, released: Event
) -> None:
    with TestClient(InTime(slow, Limits(20, seconds=0.01, concurrent=2))) as client:
        assert "took too long" in client.get("/slow").text
        assert client.get("/slow").status_code == 503
        assert "The server is busy." in client.get("/quick").text
        released.set()
        while client.get("/quick").text != "ok":
            pass


def test_a_reply_that_the_client_does_not_read_is_given_up() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def stuck(message: Message) -> None:
        sent.append(message)
        await asyncio.Event().wait()

    async def ask_twice() -> None:
        limited = InTime(PlainTextResponse("ok"), Limits(20, transfer=0.01, concurrent=1))
        for _ in range(2):
            await limited({"type": "http", "method": "GET", "headers": []}, receive, stuck)

    with ThreadPoolExecutor(1) as pool:  # the browser of other tests has the event loop of this thread
        pool.submit(asyncio.run, ask_twice()).result()
    assert [message["status"] for message in sent] == [200, 200]
