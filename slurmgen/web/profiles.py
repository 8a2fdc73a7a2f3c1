"""The site profiles that a server shows: a public one has the bundled profiles only."""

from functools import cache
from pathlib import Path

from slurmgen.config.project import find_project
from slurmgen.errors import ConfigError
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.web.settings import Settings


def site_names(settings: Settings) -> tuple[str, ...]:
    """The names of all profiles."""
    return _bundled_names() if settings.public else tuple(profile_paths(_project()))


def find_site(settings: Settings, name: str) -> Site:
    """The site of that name.

    Raises:
        ConfigError: there is no such profile, or it is wrong.
    """
    return _bundled(name) if settings.public else load_site(name, _project())


def site_title(settings: Settings, name: str) -> str:
    """The title of a site; its name if the profile is wrong."""
    try:
        return find_site(settings, name).title or name
    except ConfigError:
        return name


@cache
def _bundled_names() -> tuple[str, ...]:
    return tuple(profile_paths(personal=False))


@cache
def _bundled(name: str) -> Site:
    return load_site(name, personal=False)


@cache
def _project() -> Path | None:
    """The project of the folder that the server was started in; None for one that another user controls."""
    try:
        return find_project(Path.cwd())[0]
    except ConfigError:
        return None
