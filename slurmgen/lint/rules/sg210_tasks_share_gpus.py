"""srun starts more tasks of a Python script on a node than there are GPUs.

## What it checks
Compares the tasks per node of an srun that runs Python with the GPUs per node, or with those in
CUDA_VISIBLE_DEVICES if the script sets it, and the ranks of an mpirun with the GPUs of the job.

## Why it matters
A framework that uses each task as a rank, such as Lightning, selects the GPU with the number of the task: the
device does not exist ("invalid device ordinal"), or two ranks share a GPU.

## Example
    #SBATCH --ntasks-per-node=8
    #SBATCH --gres=gpu:4
    srun python train.py

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py

## When to ignore
If several tasks use one GPU on purpose, or most tasks use only CPUs.

## Reference
https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import steps, visible_gpus
from slurmgen.text import counted

CODE = "SG210"
SEVERITY = "warning"
SUMMARY = "a node has more tasks than GPUs"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the tasks of each step with its GPUs."""
    yield from _of_mpirun(script)
    for launch in steps(script):
        shape = script.step(launch)
        counts = (shape.gpus_per_node, visible_gpus(launch))
        gpus, tasks = min(filter(None, counts), default=None), shape.ntasks_per_node
        if launch.kind == "python" and gpus and tasks and tasks > gpus:
            yield Finding(
                launch.step.word.span if launch.step else launch.span,
                f"srun starts {tasks} tasks on a node with {counted(gpus, 'GPU')}",
                f"use `--ntasks-per-node={gpus}`, or request {tasks} GPUs per node",
            )


def _of_mpirun(script: Script) -> Iterator[Finding]:
    """Compare the ranks of each mpirun with the GPUs of all nodes."""
    for launch in script.launches:
        layer, gpus = launch.under("mpirun"), script.job.gpus
        ranks = layer and next(filter(None, map(layer.options.number, ("np", "n"))), None)
        if layer and gpus and ranks and ranks > gpus and launch.kind == "python" and launch.step is None:
            yield Finding(
                layer.word.span,
                f"{layer.word.text} starts {ranks} ranks for {counted(gpus, 'GPU')}",
                f"start {counted(gpus, 'rank')}, or request more GPUs",
            )
