"""Sites."""

from slurmgen.web.sites.routes import ROUTES

__all__ = ["ROUTES"]
