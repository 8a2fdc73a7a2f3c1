"""A task of a job array may requeue the whole array.

## What it checks
Checks for `scontrol requeue $SLURM_JOB_ID` in a job array.

## Why it matters
For one task of an array, this ID is also the ID of the whole array. That task requeues all tasks.

## Example
    #SBATCH --array=0-9
    scontrol requeue "$SLURM_JOB_ID"

## Use instead
    #SBATCH --array=0-9
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"

## When to ignore
If all tasks of the array are meant to run again.

## Reference
Lightning-AI/pytorch-lightning issue 15022
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import is_literal
from slurmgen.lint.rules.signals import requeues

CODE = "SG605"
SEVERITY = "error"
SUMMARY = "a task of a job array may requeue the whole array"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the job ID of each requeue."""
    if not script.header.last("array"):
        return
    for command in requeues(script):
        word = command.words[-1]
        if word.names and word.names <= {"SLURM_JOB_ID", "SLURM_JOBID"}:
            task = '"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"'
            yield Finding(
                word.span,
                "in a job array, this ID may be that of the whole array",
                f"write `{task}`",
                (Edit(word.span, task),) if is_literal(script, word) else (),
            )
