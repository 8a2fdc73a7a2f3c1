"""A launcher starts several ranks in the batch script, without srun.

## What it checks
Checks for torchrun, accelerate or deepspeed with several ranks and without srun or mpirun in a job with one
node.

## Why it matters
Training works, but outside any job step. Accounting shows no separate step for the training, and CPU binding
does not apply. This is common on one node, so the rule is opt-in. SG608 reports a `--signal` that does not
reach the ranks.

## Example
    torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    srun torchrun --standalone --nproc-per-node=4 train.py

## When to ignore
If accounting and binding of the training do not matter, as in most jobs on one node.

## Reference
Lightning-AI/pytorch-lightning issue 6626
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import procs_of, rank_launchers

CODE = "SG206"
SEVERITY = "note"
SUMMARY = "several ranks run without srun"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for launchers in the batch script of a job with one node."""
    for launch in rank_launchers(script):
        procs = procs_of(script, launch) or 0
        direct = launch.step is None and launch.under("mpirun") is None
        shared = {"background", "loop"} & set(launch.command.place)
        if script.job.nodes == 1 and direct and procs > 1 and not shared:
            yield Finding(
                launch.span,
                f"{launch.kind} starts {procs} ranks outside any job step",
                "start it with `srun` and one task",
            )
