"""srun starts a launcher in every task, though one a node is wanted.

## What it finds
torchrun, accelerate or deepspeed under an srun with several tasks on a node, where the launcher itself
starts a rank a GPU.

## Why it is bad
Each copy starts all the ranks of a node, and all copies want the same port: the job dies with an address in
use, or trains several times side by side on the same GPUs.

## Example
    #SBATCH --ntasks-per-node=4
    srun torchrun --nproc-per-node=4 train.py

## Use instead
    #SBATCH --ntasks-per-node=1
    srun torchrun --nproc-per-node=4 train.py

The CPUs of the four tasks then belong to the one: multiply --cpus-per-task.

## Reference
ultralytics/yolov5 issue 12429 ; interTwin-eu/itwinai issue 360
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import FRAMEWORKS, starters

CODE = "SG201"
SEVERITY = "error"
SUMMARY = "the launcher runs once a task, not once a node"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the tasks of a node with the launch table."""
    for launch in starters(script):
        shape = script.step(launch)
        wanted = FRAMEWORKS[launch.kind].ntasks_per_node(shape.gpus_per_node or 1)
        tasks = shape.ntasks_per_node
        if launch.step and tasks and tasks > wanted and not _is_node_a_task(launch, shape.ntasks):
            yield Finding(
                launch.span,
                f"srun starts {launch.kind} {tasks} times on each node, and each starts its own ranks",
                f"use `--ntasks-per-node={wanted}`, with the CPUs of all; {FRAMEWORKS[launch.kind].why}",
            )


def _is_node_a_task(launch: Launch, ntasks: int | None) -> bool:
    """Whether the launcher takes each task for a node of its own, on purpose."""
    nodes = launch.options.given.get("nnodes") or launch.options.given.get("num-machines")
    number = launch.options.number("nnodes") or launch.options.number("num-machines")
    return nodes is not None and number in (None, ntasks)
