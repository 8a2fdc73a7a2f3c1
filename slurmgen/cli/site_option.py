"""The option --site, the same for every command."""

from pathlib import Path

import click


def _complete_sites(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.sites.profiles import profile_paths

    return [name for name in profile_paths(Path.cwd()) if name.startswith(incomplete)]


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value: it is a mistake, such as an unset shell variable. A click callback."""
    if value == "":
        raise click.BadParameter("it is empty. Leave it out, or give it a value.")
    return value


site_option = click.option(
    "--site",
    metavar="NAME",
    callback=not_empty,
    shell_complete=_complete_sites,
    help="Site profile; `slurmgen sites` lists them.",
)
