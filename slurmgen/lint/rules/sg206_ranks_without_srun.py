"""A launcher starts several ranks in the batch script, without srun.

## What it checks
Checks for torchrun, accelerate or deepspeed with several ranks and without srun or mpirun in a job with one
node.

## Why it matters
Training works, but outside any job step. The signal of `--signal` does not reach the ranks, so they cannot
save a checkpoint before the time limit. Accounting shows no separate step for the training. CPU binding and
`--kill-on-bad-exit` do not apply.

## Example
    torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    srun torchrun --standalone --nproc-per-node=4 train.py

## Reference
Lightning-AI/pytorch-lightning issue 6626
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import insert, procs_of, rank_launchers

CODE = "SG206"
SEVERITY = "warning"
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
                _with_srun(script, launch),
            )


def _with_srun(script: Script, launch: Launch) -> tuple[Edit, ...]:
    first = launch.command.words[0]
    if script.job.ntasks_per_node != 1 or first.text == "exec":
        return ()
    cpus = '--cpus-per-task="$SLURM_CPUS_PER_TASK" ' if script.job.cpus_per_task else ""
    return insert(script, first, first.span.start, f"srun {cpus}")
