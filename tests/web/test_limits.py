"""What a public server allows one client."""

from collections.abc import Iterator
from threading import Event

import httpx
import pytest
from httpx import ASGITransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from slurmgen.web import Settings, create_app
from slurmgen.web.limits import _CLIENTS, InTime, Limits, RateLimit
from tests.support.web import PUBLIC


def test_a_large_body_is_refused() -> None:
    with TestClient(create_app(Settings(limits=PUBLIC))) as client:
        assert client.post("/", content=b"x" * 1_000_001).status_code == 413


def test_a_body_of_unknown_length_is_refused_once_it_is_too_large() -> None:
    parts = (b"x" * 100_000 for _ in range(11))
    with TestClient(create_app(Settings(limits=Limits(20)))) as client:
        assert client.post("/lint", content=parts).status_code == 413


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
    with TestClient(InTime(slow, Limits(20, seconds=0.01, concurrent=2, each=9))) as client:
        assert "took too long" in client.get("/slow").text
        assert client.get("/slow").status_code == 503
        assert "The server is busy." in client.get("/quick").text
        released.set()
        while client.get("/quick").text != "ok":
            pass


def test_a_client_with_slow_requests_does_not_keep_others_waiting(slow: Starlette, released: Event) -> None:
    limited = InTime(slow, Limits(20, seconds=0.01, each=2))
    with TestClient(limited, client=("192.0.2.1", 1)) as first:
        assert {first.get("/slow").status_code for _ in range(2)} == {503}
        assert "of your address" in first.get("/quick").text
        limited.limits = Limits(20, each=2, seconds=60)
        assert first.portal
        second = ASGITransport(limited, client=("192.0.2.2", 1))
        request = httpx.Request("GET", "http://test/quick")
        assert first.portal.call(second.handle_async_request, request).status_code == 200
        released.set()
        assert first.get("/quick").text == "ok"
    assert len(limited._turns) == 0
