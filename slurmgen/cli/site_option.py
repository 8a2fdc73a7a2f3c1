"""The option --site, the same for every command."""

import click

from slurmgen.cli.completion import complete_sites


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value: it is a mistake, such as an unset shell variable. A click callback."""
    if value == "":
        raise click.BadParameter("it is empty. Leave it out, or give it a value.")
    return value


site_option = click.option(
    "--site",
    metavar="NAME",
    callback=not_empty,
    shell_complete=complete_sites,
    help="Site profile; `slurmgen sites` lists them.",
)
