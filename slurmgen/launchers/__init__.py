"""Launchers: one framework per file. The planner and the linter read this table."""

from slurmgen.launchers import accelerate, ddp, jax, lightning, mpi, python, spawn, srun, tensorflow
from slurmgen.launchers.base import Command, Launcher, Layout, Options, Tasks

LAUNCHERS: dict[str, Launcher] = {
    module.LAUNCHER.name: module.LAUNCHER
    for module in (python, lightning, ddp, srun, accelerate, jax, mpi, spawn, tensorflow)
}

__all__ = ["LAUNCHERS", "Command", "Launcher", "Layout", "Options", "Tasks"]
