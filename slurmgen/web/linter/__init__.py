"""Linter."""

from slurmgen.web.linter.routes import ROUTES

__all__ = ["ROUTES"]
