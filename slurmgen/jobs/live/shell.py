"""A shell or a command in the allocation of a running job, with its container and environment. Pure."""

import shlex
from collections.abc import Sequence

from slurmgen.jobs.live.allocation import Allocation, step
from slurmgen.plan import Plan
from slurmgen.plan.job_step import container_words
from slurmgen.script import render_setup

SHELL = ("bash",)
"What runs if the user names no command; on a terminal it reads ~/.bashrc."


def shell_argv(
    allocation: Allocation,
    node: str,
    command: Sequence[str],
    *,
    folder: str | None = None,
    plan: Plan | None = None,
    terminal: bool = False,
) -> list[str]:
    """The command for the login node.

    Args:
        allocation: of the job.
        node: where it runs.
        command: what runs in it; the empty one is a shell.
        folder: the run folder of the job; default: the folder that Slurm chooses.
        plan: the plan of the job; None for the environment of the login node.
        terminal: whether there is a terminal.
    """
    # A single task would be bound to one core.
    options = ["--cpu-bind=none", *(["--pty"] if terminal else [])]
    in_srun, in_task = _container(plan)
    # In a container that srun starts, there are no modules.
    setup = f"{render_setup(plan, software=not in_srun)}\n" if plan else ""
    task = ["bash", "-c", f'{setup}exec {" ".join([*in_task, ""])}"$@"', "slurmgen", *(command or SHELL)]
    srun = step(allocation, [], options=options, node=node)
    text = " ".join([f"exec {shlex.join(srun)}", *in_srun, shlex.join(task)])
    place = f"cd -- {shlex.quote(folder)} || exit\n" if folder else ""
    return ["bash", "-c", place + text]


def _container(plan: Plan | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of srun for the container, and the words before a command in it; both are shell words."""
    if plan is None:
        return (), ()
    names = tuple(variable.name for variable in plan.variables)
    return container_words(plan.setup, names)
