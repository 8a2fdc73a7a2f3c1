"""Launchers: one framework per file. The planner and the linter read this table."""

from slurmgen.launchers import (
    accelerate,
    ddp,
    deepspeed,
    hf_trainer,
    jax,
    lightning,
    mpi,
    python,
    ray,
    spawn,
    srun,
    tensorflow,
)
from slurmgen.launchers.base import Command, Launcher, Layout, Options, Tasks

_FRAMEWORKS = (
    python,
    lightning,
    ddp,
    srun,
    accelerate,
    deepspeed,
    hf_trainer,
    jax,
    mpi,
    ray,
    spawn,
    tensorflow,
)
LAUNCHERS: dict[str, Launcher] = {module.LAUNCHER.name: module.LAUNCHER for module in _FRAMEWORKS}

ALIASES = {
    **dict.fromkeys(("torchrun", "torch", "pytorch", "fsdp"), "ddp"),
    **dict.fromkeys(("pl", "pytorch-lightning"), "lightning"),
    **dict.fromkeys(("hf", "huggingface", "transformers"), "hf-trainer"),
}
"What users call a framework, and its name here."

__all__ = ["ALIASES", "LAUNCHERS", "Command", "Launcher", "Layout", "Options", "Tasks"]
