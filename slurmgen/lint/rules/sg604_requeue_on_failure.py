"""The job requeues itself after any failure.

## What it checks
Checks for `scontrol requeue` that runs after any failure of the training, or unconditionally after a launch.

## Why it matters
A bug in the training script fails every time. The job requeues itself until the user cancels it, and is
charged for each run.

## Example
    srun python train.py || scontrol requeue "$SLURM_JOB_ID"

## Use instead
    srun python train.py || code=$?
    if [ "${code:-0}" -eq 85 ]; then scontrol requeue "$SLURM_JOB_ID"; fi

The training script exits with a code of its own (here 85) if it was interrupted and has saved a checkpoint.

## When to ignore
If the number of restarts is limited elsewhere.

## Reference
Lightning-AI/pytorch-lightning issue 20542
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.rules.signals import requeues

CODE = "SG604"
SEVERITY = "warning"
SUMMARY = "the job requeues itself after any failure"

_ANY_FAILURE = r"(-ne|-gt|!=|>)\s*['\"]?0\b"
_ONE_CODE = r"(-eq|==|\s=)\s*['\"]?[1-9]"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the condition of each requeue."""
    starts = {launch.command.span.start for launch in script.launches}
    for command in requeues(script):
        if _ignores_exit_code(command, script.source.plain, starts):
            yield Finding(
                command.span,
                "the job requeues itself after any failure, including bugs",
                "requeue only after the exit code that means: interrupted, checkpoint saved",
            )


def _ignores_exit_code(command: Command, text: str, starts: set[int]) -> bool:
    if not command.place:
        return any(start < command.span.start for start in starts)
    conditions = " ".join(command.conditions)
    if "function" in command.place or re.search(_ONE_CODE, conditions):
        return False
    after_launch = command.place[-1] == "or" and re.search(r"\b(srun|torchrun|accelerate|python)", conditions)
    return bool(after_launch or re.search(_ANY_FAILURE, conditions))
