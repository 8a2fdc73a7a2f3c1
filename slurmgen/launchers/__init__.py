"""Launchers: one framework per file. The planner and the linter read this table."""

from slurmgen.launchers import accelerate, ddp, deepspeed, hf_trainer, lightning, python, ray, srun
from slurmgen.launchers.base import Command, Launcher, Layout, Options, Tasks

LAUNCHERS: dict[str, Launcher] = {
    module.LAUNCHER.name: module.LAUNCHER
    for module in (python, lightning, ddp, srun, accelerate, deepspeed, hf_trainer, ray)
}

__all__ = ["LAUNCHERS", "Command", "Launcher", "Layout", "Options", "Tasks"]
