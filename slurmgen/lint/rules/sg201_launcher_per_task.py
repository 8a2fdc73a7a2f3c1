"""srun starts several copies of a launcher on each node instead of one.

## What it checks
Checks for torchrun, accelerate, deepspeed, `ray start` or `ray symmetric-run` under an srun with several
tasks per node. These launchers start one rank per GPU, or Ray's workers, themselves. A launcher whose
`--nnodes` or `--num_machines` equals the number of tasks, or cannot be determined, is not reported: it
intentionally treats each task as a node. Also checks for mpirun or horovodrun, with more than one rank, under
an srun with several tasks.

## Why it matters
Each copy starts all ranks of a node, and all copies use the same port. The job fails because the address is
in use, or trains several times in parallel on the same GPUs. Each copy of Ray offers all GPUs of the node.

## Example
    #SBATCH --ntasks-per-node=4
    srun torchrun --nproc-per-node=4 train.py

## Use instead
    #SBATCH --ntasks-per-node=1
    srun torchrun --nproc-per-node=4 train.py

Multiply `--cpus-per-task` by the previous number of tasks: the one task needs the CPUs of all of them.

## When to ignore
If each task is a group of its own, with GPUs and a port of its own.

## Reference
ultralytics/yolov5 issue 12429 ; interTwin-eu/itwinai issue 360
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import PER_NODE

CODE = "SG201"
SEVERITY = "error"
SUMMARY = "the launcher runs once per task instead of once per node"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the tasks of a node with the number that the launcher needs."""
    yield from _of_mpirun(script)
    for launch in (launch for launch in script.launches if launch.kind in PER_NODE):
        shape, launcher = script.step(launch), PER_NODE[launch.kind]
        wanted = launcher.ntasks_per_node(shape.gpus_per_node or 1)
        tasks = shape.ntasks_per_node
        if launch.step and tasks and tasks > wanted and not _treats_tasks_as_nodes(launch, shape.ntasks):
            yield Finding(
                launch.span,
                f"srun starts {launch.kind} {tasks} times on each node, and each copy starts its own ranks",
                f"use `--ntasks-per-node={wanted}` with the CPUs of all tasks; {launcher.why}",
            )


def _treats_tasks_as_nodes(launch: Launch, ntasks: int | None) -> bool:
    """Whether the launcher intentionally treats each task as a node."""
    nodes = launch.options.given.get("nnodes") or launch.options.given.get("num-machines")
    number = launch.options.number("nnodes") or launch.options.number("num-machines")
    return nodes is not None and number in (None, ntasks)


def _of_mpirun(script: Script) -> Iterator[Finding]:
    """Each mpirun of which srun starts several copies, unless a copy is a single rank."""
    for launch in script.started:
        kinds = [layer.kind for layer in launch.layers]
        if "srun" not in kinds or "mpirun" not in kinds[kinds.index("srun") :]:
            continue
        layer, tasks = launch.layers[kinds.index("mpirun")], script.step(launch).ntasks or 1
        ranks = next(filter(None, map(layer.options.number, ("np", "n"))), None)
        if tasks > 1 and ranks != 1:
            yield Finding(
                layer.word.span,
                f"srun starts {layer.word.text} {tasks} times, and each copy starts all ranks",
                f"leave out one of them: `srun` starts one rank per task without {layer.word.text}",
            )
