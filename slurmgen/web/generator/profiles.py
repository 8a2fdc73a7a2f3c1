"""The sites to choose from. A public server reads the bundled profiles once; a user's own may change."""

from functools import cache

from slurmgen.config.user import Personal, load_personal
from slurmgen.sites.model import Site
from slurmgen.web.settings import Settings
from slurmgen.web.sites.profiles import profiles


def find_site(settings: Settings, name: str) -> Site:
    """The site of that name.

    Raises:
        ConfigError: there is no such profile, or it is wrong.
    """
    return _bundled(name) if settings.public else profiles(public=False).site(name)


def own_settings(settings: Settings, site: Site) -> Personal:
    """The user's own settings for a site, as on the command line; none on a public server.

    Raises:
        ConfigError: the file is wrong, or another user may change it.
    """
    return Personal() if settings.public else load_personal(site.name)


def site_titles(settings: Settings) -> dict[str, str]:
    """The title of each site; its name if the profile states none, or is not valid."""
    return _bundled_titles() if settings.public else _titles(public=False)


@cache
def _bundled(name: str) -> Site:
    return profiles(public=True).site(name)


@cache
def _bundled_titles() -> dict[str, str]:
    return _titles(public=True)


def _titles(*, public: bool) -> dict[str, str]:
    return {one.name: (one.facts and one.facts.title) or one.name for one in profiles(public=public).listed()}
