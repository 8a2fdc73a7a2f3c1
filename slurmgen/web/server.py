"""Run the web page: its address, connections and browser."""

import asyncio
import logging
import re
import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from html import escape
from ipaddress import ip_network
from pathlib import Path
from secrets import token_urlsafe
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any, cast

import click
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from slurmgen.errors import RequestError
from slurmgen.text import counted
from slurmgen.web.app import create_app
from slurmgen.web.limits import Limits
from slurmgen.web.pages import Settings

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_NAMES = ("127.0.0.1", "localhost", "[::1]")
"What a browser on this machine calls it."

_CONNECTIONS = 100
"At the same time, of a public server: each may hold a body in memory. Further ones get status 503."

_BASE_PATH = re.compile(r"(/[\w~-][\w.~-]*)*", re.ASCII)


@dataclass(frozen=True)
class Options:
    """What the user asks of a server."""

    port: int
    "0: any free one."
    host: str
    "The address to listen on; only a public page may have another than loopback."
    base_path: str
    public: bool
    "Without jobs and without a token."
    rate: int
    "Requests per second of one client of a public page."
    proxies: tuple[str, ...]
    "Addresses and networks whose X-Forwarded-For names the client."
    opens: bool
    "Open the browser."


def serve(options: Options, say: Callable[[str], None]) -> None:
    """Serve the page until ^C, and print its address.

    Raises:
        RequestError: an option is not valid, or the address is in use.
    """
    _check(options)
    with listen(options.host, options.port) as listener, ExitStack() as stack:
        settings = _settings(options)
        address = _address(options.host, listener.getsockname()[1], settings)
        click.echo(address)
        if options.opens:
            stack.enter_context(opened(address, say))
        say("serving until ^C")
        _run(config(settings, options.proxies), listener, say)


def _check(options: Options) -> None:
    if options.host not in _LOOPBACK and not options.public:
        raise RequestError(
            f"--host {options.host} would show your jobs to others",
            "Add --public, or forward the port over ssh.",
        )
    if options.proxies and not options.public:
        raise RequestError("--proxy has no effect without --public", "Add --public.")
    if not _BASE_PATH.fullmatch(options.base_path.rstrip("/")):
        raise RequestError(
            f"--base-path {options.base_path!r} is not a path", "Start it with a slash, such as /slurmgen."
        )
    for proxy in options.proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            hint = "Give an address or a network, such as 127.0.0.1."
            raise RequestError(f"--proxy {proxy!r} is not an address", hint) from error


def _settings(options: Options) -> Settings:
    base_path = options.base_path.rstrip("/")
    if options.public:
        return Settings(limits=Limits(options.rate), base_path=base_path)
    return local_settings(base_path)


def local_settings(base_path: str = "") -> Settings:
    """Those of a local server, with secrets of its own."""
    return Settings(hosts=_NAMES, base_path=f"{base_path}/{token_urlsafe(16)}")


def _address(host: str, port: int, settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    name = f"[{host}]" if ":" in host else host
    rest = "" if settings.public else f"?token={settings.token}"
    return f"http://{name}:{port}{settings.url('/')}{rest}"


def config(settings: Settings, proxies: Sequence[str] = ()) -> uvicorn.Config:
    """How uvicorn serves: it trusts no proxy that is not named, logs no request, and reads no environment."""
    return uvicorn.Config(
        create_app(settings),
        http="h11",  # it refuses large heads
        limit_concurrency=_CONNECTIONS if settings.public else None,
        ws="none",
        workers=1,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=1,
    )


class _Server(uvicorn.Server):
    """Finishes the forms that it has received when it is to end; a second ^C ends it at once."""

    def __init__(self, config: uvicorn.Config, say: Callable[[str], None]) -> None:
        self._answer, self._forms, self._say = cast(ASGIApp, config.app), 0, say

        async def finishing(scope: Scope, receive: Receive, send: Send) -> None:  # not a method, for uvicorn
            await self._finish(scope, receive, send)

        config.app = cast(Any, finishing)
        super().__init__(config)

    async def _finish(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_form = scope.get("method") == "POST"
        if is_form and self.should_exit:
            await PlainTextResponse(_ENDED, 503)(scope, receive, send)
            return
        self._forms += is_form
        try:
            await self._answer(scope, receive, send)
        except asyncio.CancelledError:
            if not is_form:
                raise
            await PlainTextResponse(_GIVEN_UP, 503)(scope, receive, send)
        finally:
            self._forms -= is_form

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection, finish the forms, and end; what is only read, such as a log, is cut off."""
        for server in self.servers:
            server.close()
        if self._forms:
            self._say(f"finishing {counted(self._forms, 'form')}; ^C ends at once")
        while self._forms and not self.force_exit:
            await asyncio.sleep(0.1)
        await super().shutdown(sockets)


_ENDED = "The server was ended before this form arrived: nothing was done. Start it again.\n"
_GIVEN_UP = (
    "The server was ended before this form was done. Start it again, and look at the jobs: sending the form "
    "again after an unsettled submission finds its job.\n"
)


def _run(config: uvicorn.Config, listener: socket.socket, say: Callable[[str], None]) -> None:
    """Serve until ^C. What it interrupts, such as the log of a job that is followed, is not an error."""
    server = _Server(config, say)
    logging.getLogger("uvicorn.error").addFilter(lambda _record: not server.should_exit)
    with suppress(KeyboardInterrupt):
        server.run([listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that waits for connections.

    Args:
        port: the port; 0 for any free one.

    Raises:
        RequestError: the address is in use or not allowed.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
        # Its connections inherit this. asyncio would not set it: the body of a reply would wait 40 ms for the
        # other side to acknowledge the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (socket.gaierror, TypeError, UnicodeError) as error:
        raise RequestError(
            f"{host!r} is not a host", "Give an address of this machine, such as 0.0.0.0."
        ) from error
    except OSError as error:
        raise RequestError(
            f"cannot listen on {host}, port {port}: {error.strerror}", "Choose another --port."
        ) from error
    return listener


@contextmanager
def opened(address: str, say: Callable[[str], None]) -> Iterator[None]:
    """Open an address. It has a token, so a file that only the user can read leads there.

    All users of the machine can read a browser's arguments.

    Args:
        say: writes a line to stderr if there is no browser.
    """
    with NamedTemporaryFile("w", prefix="slurmgen-", suffix=".html") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
        file.flush()
        # A browser in the terminal runs until the user leaves it.
        Thread(target=_open, args=(Path(file.name).as_uri(), say), daemon=True).start()
        yield


def _open(file: str, say: Callable[[str], None]) -> None:
    if not webbrowser.open(file):
        say("found no browser; open the address above")
