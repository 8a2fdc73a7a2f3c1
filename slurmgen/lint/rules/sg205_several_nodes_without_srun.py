"""A job with several nodes starts its launcher on the first node only.

## What it checks
Checks for torchrun, accelerate or `ray symmetric-run` without srun or mpirun in a job with several nodes.
deepspeed is not reported: it starts its ranks on the other nodes over SSH. Beside other launches, one that is
explicitly configured for one node is not reported either, nor any launch in a script with `ssh` in a loop,
which probably runs over the other nodes.

## Why it matters
The batch script runs on the first node only. The launcher waits there for the other nodes until it times out,
or trains alone while they are idle.

## Example
    #SBATCH --nodes=2
    torchrun --nnodes=2 ... train.py

## Use instead
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 ... train.py

## When to ignore
If the program starts its ranks on the other nodes itself.

## Reference
https://slurm.schedmd.com/srun.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.launchers import RAY_ON_ALL_NODES
from slurmgen.lint.rules.common import FRAMEWORKS

CODE = "SG205"
SEVERITY = "error"
SUMMARY = "without srun, the launcher runs on the first node only"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for launchers that run in the batch script itself."""
    nodes = script.job.nodes
    for launch in (launch for launch in script.launches if launch.kind in (*FRAMEWORKS, RAY_ON_ALL_NODES)):
        direct = launch.step is None and launch.under("mpirun") is None and launch.under("ssh") is None
        if nodes and nodes > 1 and direct and launch.kind != "deepspeed" and not _is_meant(script, launch):
            yield Finding(
                launch.span,
                f"{launch.kind} runs on only the first of {nodes} nodes",
                "start it with `srun` and one task per node",
            )


def _is_meant(script: Script, launch: Launch) -> bool:
    """Whether other launches run on the other nodes: over SSH, or if it is explicitly of one node."""
    if any(command.name == "ssh" and "loop" in command.place for command in script.commands):
        return True
    numbers = (launch.options.number(name) for name in ("nnodes", "num-machines"))
    return len(script.launches) > 1 and (1 in numbers or "standalone" in launch.options.given)
