"""The step uses fewer CPUs of a node than the job asks for.

## What it finds
The only launch of a script whose srun has fewer tasks, or fewer CPUs a task, than the header.

## Why it is bad
The rest of the CPUs idle and are paid for. Mostly a header for one task a GPU, and an srun for one task a
node.

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --cpus-per-task=8
    srun --nodes=1 --ntasks=1 --cpus-per-task=8 torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --ntasks-per-node=1
    #SBATCH --cpus-per-task=32
    srun --cpus-per-task=32 torchrun --standalone --nproc-per-node=4 train.py

## Reference
https://slurm.schedmd.com/srun.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Shape

CODE = "SG403"
SEVERITY = "warning"
SUMMARY = "the step leaves CPUs of the job idle"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the CPUs of a node in the header and in the step."""
    if len(script.launches) != 1:
        return
    launch = script.launches[0]
    shared = {"background", "loop"} & set(launch.command.place)
    if launch.step is None or shared or launch.step.options.open:
        return
    asked, used = _cpus(script.job), _cpus(script.step(launch))
    if asked and used and used < asked:
        yield Finding(
            launch.step.word.span,
            f"the job has {asked} CPUs on a node, and this step uses {used}",
            "ask for what the step needs, or give it all of them",
        )


def _cpus(shape: Shape) -> int | None:
    return (
        shape.ntasks_per_node * shape.cpus_per_task if shape.ntasks_per_node and shape.cpus_per_task else None
    )
