"""Generator."""

from slurmgen.web.generator.routes import ROUTES

__all__ = ["ROUTES"]
