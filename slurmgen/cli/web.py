"""`slurmgen web`: the page with generator, linter, sites and jobs."""

from typing import Any

import click

from slurmgen.cli.output import Command, say
from slurmgen.errors import RequestError

_INSTALL = "Install it with: pip install 'slurmgen-torch[web]'"


@click.command(
    "web",
    cls=Command,
    examples={
        "slurmgen web --open": "Open the page in the browser",
        "slurmgen web --public --port 8080 --base-path /slurmgen": "Serve the generator to anyone",
    },
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; default: any free one.")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option("--public", is_flag=True, help="Serve only generator, linter and sites, to anyone.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; with --public only."
)
@click.option(
    "--base-path", default="", metavar="PATH", help="Path of the page behind a proxy, such as /slurmgen."
)
@click.option(
    "--rate",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Requests per second that one client may send, with --public.",
)
@click.option(
    "--proxy",
    "proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Address or network of your proxy, which names the client in X-Forwarded-For.",
)
def command(**options: Any) -> None:
    """Serve the page with generator, linter, sites and jobs on this machine.

    The page is on loopback only, and its address contains a token, so that no other user can open it.
    Ends on ^C. With --public it has no jobs, reads no files, needs no token, and limits each client.
    """
    try:
        from slurmgen.web.server import Options, serve
    except ModuleNotFoundError as error:
        raise RequestError(f"the package {error.name} is not installed", _INSTALL) from error
    serve(Options(**options), say)
