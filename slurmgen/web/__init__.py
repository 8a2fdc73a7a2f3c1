"""The web page: generator, linter, sites, and the user's jobs. It needs the extra `web`."""

from slurmgen.web.app import create_app
from slurmgen.web.pages import Settings

__all__ = ["Settings", "create_app"]
