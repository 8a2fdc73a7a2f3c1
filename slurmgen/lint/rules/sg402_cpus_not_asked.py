"""A GPU job has one CPU for each task.

## What it checks
Checks for a header with several GPUs and a number of tasks, or several GPUs in `--gres`, and no option for
CPUs, in a script that starts Python or a launcher. If the header has `--cpus-per-task=1`, the script must
also start one rank per GPU, by a launcher or by srun with several tasks. A script with `--cpus-per-task` on
an srun is not reported, nor one with more tasks than GPUs that starts every launch once: its tasks stand for
CPUs.

## Why it matters
Slurm allocates one CPU per task, unless the site has a different default. All workers of the data loader
share this CPU, and the GPUs wait for data.

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    #SBATCH --cpus-per-task=8

## When to ignore
If the site allocates CPUs with each GPU, or the task needs only one.

## Reference
Lightning-AI/pytorch-lightning issue 18650
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import FRAMEWORKS

CODE = "SG402"
SEVERITY = "warning"
SUMMARY = "a GPU job has one CPU for each task"

_FEW = 8
"A job with more tasks on a node may use them as CPUs."

_TASKS = ("ntasks-per-node", "tasks-per-node", "ntasks")
_CPUS = (
    "cpus-per-task cpus-per-gpu exclusive mincpus extra-node-info cores-per-socket sockets-per-node "
    "ntasks-per-core tres-per-task threads-per-core"
).split()


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the header, and srun for --cpus-per-task."""
    header = script.header
    tasks = next((found for name in _TASKS if (found := header.last(name))), None)
    lacks_cpus = not any(header.last(name) for name in _CPUS)
    on_srun = any(launch.step and "cpus-per-task" in launch.step.options.given for launch in script.launches)
    single = header.last("cpus-per-task") if script.job.cpus_per_task == 1 else None
    if single and script.job.has_gpus and _has_ranks(script) and (script.job.ntasks_per_node or 0) <= _FEW:
        yield Finding(
            single.span,
            "each GPU task has one CPU, which all workers of its data loader share",
            "request the site's number of CPUs per GPU",
        )
    place = tasks or (header.last("gres") if _trains_on_several(script) else None)
    if (
        place
        and lacks_cpus
        and script.job.has_gpus
        and script.launches
        and not _is_single(script)
        and not on_srun
        and not _tasks_are_cpus(script)
    ):
        yield Finding(
            place.span,
            "the job requests GPUs, but no CPUs; by default each task gets one CPU",
            "add `#SBATCH --cpus-per-task=N`, with the site's number of CPUs per GPU",
        )


def _is_single(script: Script) -> bool:
    """Whether the job has one GPU and one task: it may need no workers for its data."""
    job = script.job
    return job.gpus == 1 and job.ntasks in (None, 1)


def _has_ranks(script: Script) -> bool:
    """Whether the script starts several ranks, as training does."""
    return not _is_single(script) and any(
        launch.kind in FRAMEWORKS or launch.under("mpirun") or (script.step(launch).ntasks or 1) > 1
        for launch in script.launches
    )


def _trains_on_several(script: Script) -> bool:
    """Whether a launcher, or srun, starts the training on several GPUs of a node."""
    several = (script.job.gpus_per_node or 1) > 1
    return several and any(launch.kind != "python" or launch.step for launch in script.launches)


def _tasks_are_cpus(script: Script) -> bool:
    """Whether the number of tasks is meant as a number of CPUs: each launch runs once."""
    tasks = int(next((value for name in _TASKS if (value := script.header.value(name) or "").isdigit()), "0"))
    once = all(script.step(launch).ntasks == 1 and not launch.under("mpirun") for launch in script.launches)
    return once and tasks > max(script.job.gpus_per_node or 1, 1)
