"""srun does not inherit `--cpus-per-task` from the header.

## What it checks
Checks for a header with `--cpus-per-task` and an srun without it that starts Python, a launcher, or a program
that is not a utility such as `hostname`, in a script that does not export `SRUN_CPUS_PER_TASK`. A step with
`--cpu-bind=none` is not reported.

## Why it matters
Since Slurm 22.05, srun does not inherit the value from the header; the details differ between versions. A
task may then get a single CPU, and the GPUs wait for the data loaders.

## Example
    #SBATCH --cpus-per-task=16
    srun python train.py

## Use instead
    #SBATCH --cpus-per-task=16
    srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py

## When to ignore
On a cluster whose Slurm is older than 22.05.

## Reference
https://slurm.schedmd.com/srun.html ; reframe-hpc/reframe issue 2655
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.launch import Layer
from slurmgen.lint.rules.common import has_unbound_cpus, insert, steps

CODE = "SG401"
SEVERITY = "warning"
SUMMARY = "srun does not inherit --cpus-per-task"

_CPUS = {"cpus-per-task", "cpus-per-gpu", "het-group"}
_MAY_SET = re.compile(r"cpus|-c\b|-c\d|[@*]|`")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check each srun that starts ranks."""
    cpus = script.job.cpus_per_task
    if not cpus or cpus == 1:
        return
    for launch in steps(script, programs=True):
        step = launch.step
        if step and _lacks_cpus(script, launch) and not has_unbound_cpus(launch):
            yield Finding(
                step.word.span,
                f"srun does not inherit --cpus-per-task={cpus}; in many Slurm versions a task gets one CPU",
                'add `--cpus-per-task="$SLURM_CPUS_PER_TASK"`',
                insert(script, step.word, step.word.span.end, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),
            )


def _lacks_cpus(script: Script, launch: Launch) -> bool:
    step = launch.step
    if step is None or step.options.given.keys() & _CPUS or not _is_complete(script, launch, step):
        return False
    return "SRUN_CPUS_PER_TASK" not in launch.env


def _is_complete(script: Script, launch: Launch, step: Layer) -> bool:
    """Whether all options of srun are known, or are in variables that the script sets to others only."""
    if not step.options.open:
        return True
    front = (step.word.span.end, launch.span.start)
    names = {
        name
        for word in launch.command.words
        if word.loose and front[0] <= word.span.start <= front[1]
        for name in word.names
    }
    values = list(script.assigned(*names))
    known = {found.name for found in values} == names and not any(_MAY_SET.search(v.raw) for v in values)
    return bool(names) and known
