"""The job takes all GPUs of a node, and leaves most of its CPUs.

## What it finds
With a site that knows how many CPUs belong to a GPU: a job with all GPUs of a node and less than half of
those CPUs.

## Why it is bad
Nobody else can use a node without GPUs to go with its CPUs, so they idle; and the data loaders of all ranks
share the few.

## Example
    #SBATCH --gpus=4
    #SBATCH --cpus-per-task=72       # on Olivia: 72 CPUs for each GPU

## Use instead
    #SBATCH --gpus=4
    #SBATCH --cpus-per-task=288

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place
from slurmgen.wording import counted

CODE = "SG908"
SEVERITY = "warning"
SUMMARY = "a whole node's GPUs with few of its CPUs"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare CPUs and GPUs of a node with the profile."""
    job, directive = script.job, script.header.last("cpus-per-task")
    if site is None or directive is None or not site.cpu.per_gpu or script.header.last("exclusive"):
        return
    gpus = place(script, site).node.gpus
    if not (gpus and job.gpus_per_node == gpus and job.cpus_per_task and job.ntasks_per_node):
        return
    used, belong = job.cpus_per_task * job.ntasks_per_node, gpus * site.cpu.per_gpu
    if used * 2 < belong:
        yield Finding(
            directive.span,
            f"{used} of the {belong} CPUs that belong to {counted(gpus, 'GPU')} on {site.name} are used",
            f"ask for `--cpus-per-task={belong // job.ntasks_per_node}`",
        )
