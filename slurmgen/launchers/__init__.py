"""Launchers: one framework a file. The planner and the linter read this one table."""

from slurmgen.launchers import accelerate, ddp, lightning, python
from slurmgen.launchers.base import Command, Geometry, Launcher, Options

LAUNCHERS: dict[str, Launcher] = {
    module.LAUNCHER.name: module.LAUNCHER for module in (python, lightning, ddp, accelerate)
}

__all__ = ["LAUNCHERS", "Command", "Geometry", "Launcher", "Options"]
