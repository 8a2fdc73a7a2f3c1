"""`slurmgen web`: the page with generator, linter, sites and jobs."""

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import say
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
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
@click.option("--public", is_flag=True, help="Serve only generator, linter and sites, to anyone.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; with --public only."
)
@click.option(
    "--base-path", default="", metavar="PATH", help="Path of the page behind a proxy, such as /slurmgen."
)
def command(port: int, open_browser: bool, public: bool, host: str, base_path: str) -> None:
    """Serve the page with generator, linter, sites and jobs on this machine.

    The page is on loopback only, and its address contains a token, so that no other user can open it.
    Ends on ^C. With --public it has no jobs, reads no files, and needs no token.
    """
    try:
        from slurmgen.web.server import serve
    except ModuleNotFoundError as error:
        raise RequestError(f"the package {error.name} is not installed", _INSTALL) from error
    serve(port=port, public=public, host=host, base_path=base_path, opens=open_browser, say=say)
