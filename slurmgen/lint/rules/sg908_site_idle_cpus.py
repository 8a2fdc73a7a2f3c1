"""The job requests all GPUs of a node, but few of its CPUs.

## What it checks
With `--site`, if the site's profile has a number of CPUs per GPU: checks for a job with all GPUs of a node
and less than half of the CPUs that belong to them. Jobs with `--exclusive` are not reported.

## Why it matters
GPU jobs of other users cannot use the remaining CPUs, because the node has no free GPUs. The data loaders of
all ranks share the few CPUs of the job.

## Example
    #SBATCH --gpus=4
    #SBATCH --cpus-per-task=72       # on Olivia: 72 CPUs for each GPU

## Use instead
    #SBATCH --gpus=4
    #SBATCH --cpus-per-task=288

## When to ignore
If the training needs few CPUs, and no other job could use the GPUs.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place
from slurmgen.text import counted

CODE = "SG908"
SEVERITY = "warning"
SUMMARY = "the job has all GPUs of a node, but few of its CPUs"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the CPUs and GPUs per node with the site's profile."""
    job, directive = script.job, script.header.last("cpus-per-task")
    if site is None or directive is None or script.header.last("exclusive"):
        return
    node = place(script, site).node
    gpus, per_gpu = node.gpus, node.cpus_per_gpu or site.cpu.per_gpu
    if not (gpus and per_gpu and job.gpus_per_node == gpus and job.cpus_per_task and job.ntasks_per_node):
        return
    used, belong = job.cpus_per_task * job.ntasks_per_node, gpus * per_gpu
    if used * 2 < belong:
        yield Finding(
            directive.span,
            f"the job has {used} of the {belong} CPUs that belong to {counted(gpus, 'GPU')} on {site.name}",
            f"request `--cpus-per-task={belong // job.ntasks_per_node}`",
        )
