"""The linter: findings and fixes of a pasted script, and the page of each rule."""

from slurmgen.web.linter.routes import ROUTES

__all__ = ["ROUTES"]
