"""The profiles that a server shows: bundled ones, and on a local server also the user's and the project's."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from slurmgen.config.project import find_project
from slurmgen.errors import ConfigError
from slurmgen.paths import bundled, config_folder
from slurmgen.sites.describe import Overview, overview
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import lineage, load_site, profile_paths


class Listed(Struct, frozen=True):
    """A profile in the list; one that is not valid has an error instead of facts."""

    name: str
    origin: str
    "Whose file it is: `yours`, `project`, or empty for a bundled one."
    facts: Overview | None = None
    error: str = ""


class Profiles(Struct, frozen=True):
    """Where the profiles of a server come from."""

    public: bool
    project: Path | None

    def paths(self) -> dict[str, Path]:
        """Every profile by name."""
        return profile_paths(self.project, personal=not self.public)

    def site(self, name: str) -> Site:
        """The site of a known name.

        Raises:
            ConfigError: the profile is not valid.
        """
        return load_site(name, self.project, personal=not self.public)

    def files(self, name: str) -> tuple[tuple[Path, str], ...]:
        """The file of a profile and those that it extends, each with its origin."""
        paths = lineage(name, self.project, personal=not self.public)
        return tuple((path, origin(path)) for path in paths)

    def listed(self) -> tuple[Listed, ...]:
        """Every profile in a line, in alphabetical order."""
        return _bundled() if self.public else tuple(_listed(self))


def _listed(profiles: Profiles) -> Iterator[Listed]:
    for name, path in profiles.paths().items():
        try:
            yield Listed(name, origin(path), overview(profiles.site(name)))
        except ConfigError as error:
            yield Listed(name, origin(path), error=str(error))


@cache
def _bundled() -> tuple[Listed, ...]:
    """The bundled profiles, which do not change."""
    return tuple(_listed(Profiles(public=True, project=None)))


def profiles(*, public: bool) -> Profiles:
    """Those of the server, whose project is that of its working folder.

    Raises:
        ConfigError: the project cannot be read.
    """
    return Profiles(public, None if public else find_project(Path.cwd())[0])


def origin(path: Path) -> str:
    """Whose file a profile is."""
    if path.parent == bundled("site_profiles"):
        return ""
    return "yours" if path.is_relative_to(config_folder()) else "project"
