"""Jobs."""

from slurmgen.web.jobs.routes import ROUTES

__all__ = ["ROUTES"]
