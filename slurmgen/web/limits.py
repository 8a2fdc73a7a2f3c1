"""Limits of a public server: requests of one client, requests at once, and the time of each.

A client that sends its request line byte by byte holds a connection: a reverse proxy in front ends it.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000
"Bytes of a request, which is more than the largest script."
_CLIENTS = 10_000
_BURST = 3
"Seconds of its rate that a client may use at once."


@dataclass(frozen=True)
class Limits:
    """What a public server allows."""

    rate: int
    "Requests per second of one client; three times as many at once."
    seconds: float = 2
    "Time until a reply is made, from the end of the request."
    transfer: float = 30
    "Time until the body of a request has arrived, and until its reply is sent."
    concurrent: int = 16
    "Requests that are answered at the same time."


class RateLimit:
    """Middleware that answers 429 to a client that sends too many requests.

    A bucket of tokens for each client, kept as the time at which it is full again, for the clients that came
    last. One with IPv6 has at least a network of 64 bits, so that is one client.
    """

    def __init__(self, app: ASGIApp, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.rate, self.clock = app, rate, clock
        self._full = OrderedDict[str, float]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._admits(_client(scope.get("client"))):
            await self.app(scope, receive, send)
        else:
            await _refusal(429, "Too many requests from your address.")(scope, receive, send)

    def _admits(self, client: str) -> bool:
        now = self.clock()
        full = max(now, self._full.get(client, now)) + 1 / self.rate
        if full - now > _BURST:
            return False
        self._full[client] = full
        self._full.move_to_end(client)
        if len(self._full) > _CLIENTS:
            self._full.popitem(last=False)
        return True


def _client(peer: tuple[str, int] | None) -> str:
    """What counts as one client: its address, or its network; the empty text for all that have none."""
    try:
        address = ip_address(peer[0] if peer else "")
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and not address.ipv4_mapped:
        return str(ip_network((int(address), 64), strict=False))
    return str(address)


class InTime:
    """Middleware that ends a request whose body or reply takes too long, or if too many are being answered.

    A handler in a thread cannot be ended: its reply is dropped, and it counts until it returns.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self._running = set[asyncio.Future[None]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole request, then answer it in time."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        if "transfer-encoding" in request.headers:
            # A body in chunks of a byte takes seconds to parse. Browsers and proxies send its length.
            await _refusal(411, "Send the length of the body.")(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(request.body(), self.limits.transfer)
        except ClientDisconnect:
            return
        except TimeoutError:
            await _refusal(408, "The request took too long to arrive.")(scope, receive, send)
            return
        await self._answer(scope, _replay(body, receive), send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        if len(self._running) >= self.limits.concurrent:
            await _refusal(503, "The server is busy.")(scope, receive, send)
            return
        task = asyncio.ensure_future(self.app(scope, receive, keep))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait({task}, timeout=self.limits.seconds)
        if not task.done():
            await _refusal(503, "The reply took too long.")(scope, receive, send)
            return
        with suppress(TimeoutError):  # uvicorn ends the connection of a reply that is not complete
            async with asyncio.timeout(self.limits.transfer):
                for message in messages:
                    await send(message)
        task.result()  # an error, after its page


def _refusal(status: int, text: str) -> PlainTextResponse:
    """A reply that ends the connection: what the client still sends is not read."""
    headers = {"Retry-After": "3", "Connection": "close"}
    return PlainTextResponse(f"{text} Try again in a moment.\n", status, headers)


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed
