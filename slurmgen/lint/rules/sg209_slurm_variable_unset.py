"""The script uses a variable that Slurm does not set with this header.

## What it checks
Checks the batch script for variables such as `$SLURM_GPUS_PER_NODE` and `$SLURM_NTASKS_PER_NODE`, which Slurm
sets only if the header has the option with that name, and for `$SLURM_GPUS_PER_NODE` with a GPU type in it.
Scripts without a header are not checked, nor uses with a default, such as `${SLURM_NTASKS:-1}`, nor
uses in a branch or in a loop with a condition, which the job may never reach.

## Why it matters
The variable is empty. A command such as `torchrun --nproc-per-node=$SLURM_GPUS_PER_NODE` fails, or uses the
next word as the value.

## Example
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc-per-node=$SLURM_GPUS_PER_NODE train.py

## Use instead
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE train.py

## When to ignore
If the option is always given on the command line of sbatch.

## Reference
https://slurm.schedmd.com/sbatch.html (output environment variables)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG209"
SEVERITY = "warning"
SUMMARY = "Slurm does not set this variable with this header"

_TASKS = (
    "ntasks",
    "ntasks-per-node",
    "tasks-per-node",
    "ntasks-per-gpu",
    "ntasks-per-socket",
    "ntasks-per-core",
)
SET_BY = {
    "SLURM_NTASKS": _TASKS,
    "SLURM_NPROCS": _TASKS,
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node", "tasks-per-node"),
    "SLURM_CPUS_PER_TASK": ("cpus-per-task", "tres-per-task"),
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
    "SLURM_GPUS": ("gpus",),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task", "tres-per-task"),
    "SLURM_MEM_PER_GPU": ("mem-per-gpu",),
}
"The options that set a variable, as jobs of Slurm 22.05 reported it."
_IN_STEPS = {"SLURM_GPUS_PER_NODE"}
"Variables that srun does not set in a step either."
_PRINTS = ("echo", "printf")
_BRANCHES = {"if", "else", "case", "while"}


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the first use of each variable."""
    header = script.header
    if not header.directives or header.components > 1:
        return
    has_gpus = script.job.has_gpus or any(header.last(name) for name in ("nodes", "ntasks"))
    uses = sorted(_uses(script))
    for name, options in SET_BY.items():
        first = next((span for span, used, raw in uses if used == name and _is_plain(name, raw)), None)
        if first is None or script.sets(name):
            continue
        if "GPU" in name and not has_gpus:
            continue  # the size of the job comes from the command line
        if not any(header.last(option) for option in options):
            yield Finding(
                first,
                f"${name} is empty: the header has no --{options[0]}",
                _ADVICE.get(name, f"add `--{options[0]}` to the header"),
            )
        elif name == "SLURM_GPUS_PER_NODE" and not (header.value("gpus-per-node") or "1").isdigit():
            yield Finding(
                first,
                f"$SLURM_GPUS_PER_NODE is {header.value('gpus-per-node')!r}, with the GPU type",
                "write `$SLURM_GPUS_ON_NODE`, which is a number",
            )


_ADVICE = {"SLURM_GPUS_PER_NODE": "write `$SLURM_GPUS_ON_NODE`, or request the GPUs with `--gpus-per-node`"}


def _uses(script: Script) -> Iterator[tuple[Span, str, str]]:
    """Where the batch script expands a variable outside a message: the place, the name, the source text."""
    for command in script.commands:
        if command.name not in _PRINTS and _BRANCHES.isdisjoint(command.place):
            guards = " ".join(command.conditions)
            for word in command.words:
                yield from ((word.span, name, word.raw) for name in word.names if name not in guards)
    yield from _uses_in_steps(script)
    for found in script.shell.assignments:
        if not found.conditional:
            yield from ((found.span, name, found.raw) for name in found.names)


def _uses_in_steps(script: Script) -> Iterator[tuple[Span, str, str]]:
    """The same for the options of launches in a `bash -c` string."""
    for launch in script.launches:
        is_set = launch.step is not None and "gpus-per-node" in launch.step.options.given
        if launch.under("shell") and not is_set:
            for word in (given.word for given in launch.options.given.values()):
                yield from ((word.span, name, word.raw) for name in word.names & _IN_STEPS)


def _is_plain(name: str, raw: str) -> bool:
    """Whether a text expands the variable without a default."""
    return bool(re.search(rf"\b{name}\b(?!:?[-=?+])", raw))
