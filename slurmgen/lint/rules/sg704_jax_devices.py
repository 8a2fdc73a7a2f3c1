"""JAX uses one GPU of each task, and the job has fewer tasks than GPUs.

## What it checks
Checks for `jax.distributed.initialize()` without `local_device_ids` in the training script, if the file is
available, under an srun with fewer tasks than GPUs on a node. A script that sets `JAX_LOCAL_DEVICE_IDS` or
the visible devices is not reported.

## Why it matters
In a step of Slurm, JAX gives each process the one GPU with the number `SLURM_LOCALID`. The others are idle.

## Example
    #SBATCH --ntasks-per-node=1
    #SBATCH --gres=gpu:4
    srun python train.py               # jax.distributed.initialize()

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py               # jax.distributed.initialize()

## When to ignore
If the script calls it in a branch that does not run.

## Reference
https://docs.jax.dev/en/latest/_autosummary/jax.distributed.initialize.html
https://github.com/jax-ml/jax/blob/main/jax/_src/clusters/cluster.py
"""

from collections.abc import Iterator

from slurmgen.launchers import LAUNCHERS
from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.training_script import calls
from slurmgen.python_source import Call
from slurmgen.text import counted

CODE = "SG704"
SEVERITY = "warning"
SUMMARY = "JAX has fewer tasks than GPUs"

_CHOSEN = ("JAX_LOCAL_DEVICE_IDS", "VISIBLE_DEVICES")
_CHOOSE = {"local_device_ids", "cluster_detection_method"}


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the tasks of the only launch with the GPUs of a node."""
    if len(script.launches) != 1 or any(name in script.source.plain for name in _CHOSEN):
        return
    launch = script.launches[0]
    shape = script.step(launch)
    tasks, gpus = shape.ntasks_per_node, shape.gpus_per_node
    if launch.kind != "python" or not launch.step or not tasks or not gpus or tasks >= gpus:
        return
    path, found = calls(script, launch, "initialize")
    if path and (call := next(filter(_takes_one_gpu, found), None)):
        yield Finding(
            launch.span,
            f"{counted(tasks, 'task')} per node for {gpus} GPUs, and JAX uses one per task: "
            f"{path.name} line {call.line}",
            f"use `--ntasks-per-node={gpus}`; {LAUNCHERS['jax'].why}",
        )


def _takes_one_gpu(call: Call) -> bool:
    is_certain = call.complete and not call.positional and not _CHOOSE & call.constants.keys()
    return call.owner == "jax.distributed" and is_certain
