"""`slurmgen lsp`: the linter in an editor."""

import click

from slurmgen.cli.options import site_option
from slurmgen.cli.output import Command
from slurmgen.errors import RequestError

_INSTALL = "Install it with: pip install 'slurmgen-torch[lsp]'"


@click.command(
    "lsp",
    cls=Command,
    hidden=True,
    examples={
        "slurmgen lsp": "Started by an editor: lint batch scripts as they are edited",
        "slurmgen lsp --site daic": "Also check them against the limits of a site",
    },
)
@site_option
def command(site: str | None) -> None:
    """Run the linter as a language server on stdin and stdout.

    An editor starts it and shows the findings of `slurmgen lint` while you edit, with fixes, and with the
    page of a rule where the pointer rests.
    """
    try:
        from slurmgen.lint.language_server import make_server
    except ModuleNotFoundError as error:
        raise RequestError("the package pygls is not installed", _INSTALL) from error
    from slurmgen.cli.options import project_dir

    if site:
        from slurmgen.sites.profiles import load_site

        load_site(site, project_dir())  # report a wrong name before the editor connects
    make_server(site).start_io()
