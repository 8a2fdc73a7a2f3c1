"""CUDA_VISIBLE_DEVICES is set by hand and does not match the GPUs of the job.

## What it checks
Checks for `CUDA_VISIBLE_DEVICES` set to a list of numbers that has more GPUs than the job has on a node, or a
number that is too large, and for a list of fewer GPUs for the only launch of a script.

## Why it matters
Slurm sets the variable itself. With device cgroups, the GPUs of a job have the numbers from 0; a larger
number does not exist, and the ranks find fewer GPUs. Without cgroups, it belongs to another job.

## Example
    #SBATCH --gres=gpu:2
    export CUDA_VISIBLE_DEVICES=0,1,2,3

## Use instead
    #SBATCH --gres=gpu:2

## When to ignore
On a cluster that does not manage its GPUs with Slurm.

## Reference
https://slurm.schedmd.com/gres.html (GPU management)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.text import counted

CODE = "SG211"
SEVERITY = "warning"
SUMMARY = "CUDA_VISIBLE_DEVICES does not match the allocation"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each list of numbers with the GPUs of a node."""
    gpus = script.job.gpus_per_node
    if not gpus or script.header.last("exclusive"):
        return
    for found in script.assigned("CUDA_VISIBLE_DEVICES"):
        if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", found.value):
            continue
        numbers = [int(number) for number in found.value.split(",")]
        if max(numbers) >= gpus or len(numbers) > gpus or _leaves_some(script, len(numbers), gpus):
            yield Finding(
                found.span,
                f"CUDA_VISIBLE_DEVICES={found.value}, but the job has {counted(gpus, 'GPU')} on a node",
                "delete the line: Slurm sets the variable",
            )


def _leaves_some(script: Script, number: int, gpus: int) -> bool:
    """Whether the only launch of the script uses a part of the GPUs."""
    once = len(script.started) == 1 and not {"background", "loop"} & set(script.started[0].command.place)
    return once and number < gpus and script.started[0].step is None
