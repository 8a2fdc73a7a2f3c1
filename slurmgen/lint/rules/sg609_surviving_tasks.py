"""A step with several tasks runs on after one of them has failed.

## What it checks
Checks for an srun with several tasks and without `--kill-on-bad-exit`.

## Why it matters
The other ranks wait for the failed one until they time out. Many clusters set KillOnBadExit, and most
launchers end the step themselves, so the rule is opt-in.

## Example
    srun python train.py

## Use instead
    srun --kill-on-bad-exit=1 python train.py

## When to ignore
If the cluster sets KillOnBadExit=1.

## Reference
https://slurm.schedmd.com/srun.html (--kill-on-bad-exit)
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import insert, steps

CODE = "SG609"
SEVERITY = "note"
SUMMARY = "tasks keep running after one has failed"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check each step with several tasks."""
    for launch in steps(script):
        step, tasks = launch.step, script.step(launch).ntasks or 1
        if step and tasks > 1 and step.options.lacks("kill-on-bad-exit"):
            yield Finding(
                step.word.span,
                "if a task fails, the others may wait for it",
                "add `--kill-on-bad-exit=1`",
                insert(script, step.word, step.word.span.end, " --kill-on-bad-exit=1"),
            )
