"""The header requests fewer tasks than nodes.

## What it checks
Compares `--ntasks` with `--nodes`.

## Why it matters
Up to Slurm 25.11, sbatch reduces the number of nodes to the number of tasks, and only prints a warning. From
26.05 it rejects the job.

## Example
    #SBATCH --nodes=4
    #SBATCH --ntasks=1

## Use instead
    #SBATCH --nodes=4
    #SBATCH --ntasks-per-node=1

## When to ignore
If one node is enough. Then request `--nodes=1`, which every version accepts.

## Reference
https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-26.05.md
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.text import counted

CODE = "SG114"
SEVERITY = "error"
SUMMARY = "the job has fewer tasks than nodes"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the numbers of the header."""
    nodes, tasks = script.header.last("nodes"), script.header.last("ntasks")
    if nodes is None or tasks is None or script.header.components > 1:
        return
    least = nodes.value.partition("-")[0]
    if least.isdigit() and tasks.value.isdigit() and 0 < int(tasks.value) < int(least):
        yield Finding(
            tasks.span,
            f"the job has --nodes={nodes.value} but --ntasks={tasks.value}: "
            f"sbatch reduces it to {counted(int(tasks.value), 'node')}, or rejects it from Slurm 26.05",
            f"write `--ntasks-per-node`, or request `--nodes={tasks.value}`",
        )
