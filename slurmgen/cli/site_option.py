"""The option that names a site, the same for every command."""

from pathlib import Path

import click


def _complete_sites(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.profiles import profile_paths

    return [name for name in profile_paths(Path.cwd()) if name.startswith(incomplete)]


site_option = click.option(
    "--site", metavar="NAME", shell_complete=_complete_sites, help="Site profile; see `slurmgen sites`."
)
