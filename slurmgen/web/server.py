"""Run the page on a socket of this machine."""

import socket
import webbrowser
from collections.abc import Callable

import click
import uvicorn

from slurmgen.errors import RequestError
from slurmgen.web.app import create_app
from slurmgen.web.settings import Settings

LOOPBACK = "127.0.0.1"


def serve(
    *,
    port: int,
    public: bool,
    host: str,
    base_path: str,
    opens: bool,
    say: Callable[[str], None],
) -> None:
    """Serve the page until ^C, and print its address.

    Args:
        port: the port; 0 for any free one.
        public: without jobs and without a token.
        host: the address to listen on; only a public page may have another than loopback.
        base_path: the path of the page, without a slash at its end.
        opens: whether to open the browser.
        say: writes a line to stderr.

    Raises:
        RequestError: the address is in use or not allowed.
    """
    if host != LOOPBACK and not public:
        raise RequestError(
            f"--host {host} would show your jobs to others", "Add --public, or forward the port over ssh."
        )
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    settings = Settings(public=public, hosts=() if public else _names(port), base_path=base_path.rstrip("/"))
    address = f"http://{host}:{port}{settings.url('/')}" + ("" if public else f"?token={settings.token}")
    click.echo(address)
    if opens:
        webbrowser.open(address)
    config = uvicorn.Config(
        create_app(settings), log_level="warning", server_header=False, timeout_graceful_shutdown=1
    )
    say("serving until ^C")
    with listener:
        uvicorn.Server(config).run([listener])


def _names(port: int) -> tuple[str, ...]:
    return tuple(f"{name}:{port}" for name in (LOOPBACK, "localhost", "[::1]"))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except TypeError as error:  # it has characters that no name has
        raise RequestError(
            f"{host!r} is not a host", "Give an address of this machine, such as 0.0.0.0."
        ) from error
    except OSError as error:
        raise RequestError(
            f"cannot listen on {host}, port {port}: {error.strerror}", "Choose another --port."
        ) from error
