"""Completion of the options of a job."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

import click

from slurmgen.config.project import DEFAULT_SITE, find_project
from slurmgen.errors import SlurmgenError
from slurmgen.sites.model import EngineName, Site
from slurmgen.sites.profiles import load_site


def complete_frameworks(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The launchers."""
    from slurmgen.launchers import LAUNCHERS

    return [name for name in LAUNCHERS if name.startswith(incomplete)]


def complete_project_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The jobs of slurmgen.toml."""
    return [name for name in find_project(Path.cwd())[1].job if name.startswith(incomplete)]


def engines(site: Site) -> Iterable[str]:
    """The container engines of a site."""
    return (site.container.engine, *site.container.engines) if site.container else get_args(EngineName)


def complete_of_site(
    names: Callable[[Site], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete from the profile of the site that the command line or the project names."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            folder, project = find_project(Path.cwd())
            site = load_site(ctx.params.get("site") or project.site or DEFAULT_SITE, folder)
        except SlurmgenError:
            return []
        return [name for name in names(site) if name.startswith(incomplete)]

    return complete
