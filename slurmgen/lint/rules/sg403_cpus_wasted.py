"""The step uses fewer CPUs of a node than the job requests.

## What it checks
Checks for a script whose only launch is under an srun with fewer tasks, or fewer CPUs per task, than the
header. A step with `--cpu-bind=none` is not reported.

## Why it matters
The remaining CPUs are idle but are charged to the account. A common cause is a header for one task per GPU
with an srun for one task per node.

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --cpus-per-task=8
    srun --nodes=1 --ntasks=1 --cpus-per-task=8 torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --ntasks-per-node=1
    #SBATCH --cpus-per-task=32
    srun --cpus-per-task=32 torchrun --standalone --nproc-per-node=4 train.py

## When to ignore
If the other CPUs are needed for their memory.

## Reference
https://slurm.schedmd.com/srun.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Shape
from slurmgen.lint.rules.common import has_unbound_cpus

CODE = "SG403"
SEVERITY = "warning"
SUMMARY = "the step does not use all CPUs of the job"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the CPUs of a node in the header and in the step."""
    if len(script.launches) != 1:
        return
    launch = script.launches[0]
    shared = {"background", "loop"} & set(launch.command.place)
    if launch.step is None or shared or launch.step.options.open or has_unbound_cpus(launch):
        return
    requested, used = _cpus(script.job), _cpus(script.step(launch))
    if requested and used and used < requested:
        yield Finding(
            launch.step.word.span,
            f"the step uses {used} of the {requested} CPUs that the job has on a node",
            "request only the CPUs that the step needs, or give it all of them",
        )


def _cpus(shape: Shape) -> int | None:
    return (
        shape.ntasks_per_node * shape.cpus_per_task if shape.ntasks_per_node and shape.cpus_per_task else None
    )
