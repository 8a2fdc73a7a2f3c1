"""srun is not told --cpus-per-task.

## What it finds
A header with `--cpus-per-task` and an srun that starts Python or a launcher without it, with no
`SRUN_CPUS_PER_TASK` exported.

## Why it is bad
From Slurm 22.05 on srun does not take the header's value by itself, and later versions differ. Each task then
has one CPU, and data loading starves the GPUs.

## Example
    #SBATCH --cpus-per-task=16
    srun python train.py

## Use instead
    #SBATCH --cpus-per-task=16
    srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py

## Reference
https://slurm.schedmd.com/srun.html ; reframe-hpc/reframe issue 2655
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import insert, steps

CODE = "SG401"
SEVERITY = "warning"
SUMMARY = "srun does not inherit --cpus-per-task"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at each srun that starts ranks."""
    cpus = script.header.value("cpus-per-task")
    if not cpus or cpus == "1":
        return
    for launch in steps(script):
        step = launch.step
        if step and _is_silent(launch):
            yield Finding(
                step.word.span,
                f"srun is not told of the {cpus} CPUs a task; on many versions each task gets one",
                'add `--cpus-per-task="$SLURM_CPUS_PER_TASK"`',
                insert(script, step.word, step.word.span.end, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),
            )


def _is_silent(launch: Launch) -> bool:
    lacks = launch.step is not None and launch.step.options.lacks(
        "cpus-per-task", "cpus-per-gpu", "het-group"
    )
    return lacks and "SRUN_CPUS_PER_TASK" not in launch.env
