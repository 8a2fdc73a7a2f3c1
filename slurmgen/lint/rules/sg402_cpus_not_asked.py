"""A GPU job counts its tasks, but says nothing about CPUs.

## What it finds
A header with GPUs and a number of tasks, and no CPU option at all, whose tasks run Python or a launcher.

## Why it is bad
Slurm gives each task one CPU, unless the site has another default: the data loader's workers share it, and
the GPUs wait for data.

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    #SBATCH --cpus-per-task=8

## Reference
Lightning-AI/pytorch-lightning issue 18650
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG402"
SEVERITY = "warning"
SUMMARY = "a GPU job asks for no CPUs"

_TASKS = ("ntasks-per-node", "ntasks")
_CPUS = (
    "cpus-per-task cpus-per-gpu exclusive mincpus extra-node-info cores-per-socket sockets-per-node "
    "ntasks-per-core tres-per-task threads-per-core"
).split()


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the header, and at whether an srun says it after all."""
    header = script.header
    tasks = next((found for name in _TASKS if (found := header.last(name))), None)
    silent = not any(header.last(name) for name in _CPUS)
    told = any(launch.step and "cpus-per-task" in launch.step.options.given for launch in script.launches)
    if tasks and silent and script.job.has_gpus and script.launches and not told:
        yield Finding(
            tasks.span,
            "tasks with GPUs, but no CPUs are asked for; each gets one where the site says nothing else",
            "add `#SBATCH --cpus-per-task=N`, with the CPUs that belong to a task's GPUs on your site",
        )
