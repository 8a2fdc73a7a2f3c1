"""The job requeues itself after any failure.

## What it finds
`scontrol requeue` that runs whenever training fails, or always.

## Why it is bad
A bug in the training script fails again, and again: the job comes back until someone notices, and pays each
time.

## Example
    srun python train.py || scontrol requeue "$SLURM_JOB_ID"

## Use instead
    srun python train.py || code=$?
    if [ "${code:-0}" -eq 85 ]; then scontrol requeue "$SLURM_JOB_ID"; fi

with an exit code of its own for "cut short, saved".

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
SUMMARY = "a bug makes the job requeue itself for ever"

_ANY_FAILURE = r"(-ne|-gt|!=|>)\s*['\"]?0\b"
_ONE_CODE = r"(-eq|==|\s=)\s*['\"]?[1-9]"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at what each requeue depends on."""
    starts = {launch.command.span.start for launch in script.launches}
    for command in requeues(script):
        if _is_blind(command, script.source.plain, starts):
            yield Finding(
                command.span,
                "the job requeues itself after every failure, bugs too",
                "requeue only on the exit code that means: cut short, and saved",
            )


def _is_blind(command: Command, text: str, starts: set[int]) -> bool:
    if not command.place:
        return any(start < command.span.start for start in starts)
    conditions = " ".join(command.conditions)
    if "function" in command.place or re.search(_ONE_CODE, conditions):
        return False
    after_launch = command.place[-1] == "or" and re.search(r"\b(srun|torchrun|accelerate|python)", conditions)
    return bool(after_launch or re.search(_ANY_FAILURE, conditions))
