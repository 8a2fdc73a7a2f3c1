"""A job of several nodes starts its launcher on the first node only.

## What it finds
torchrun or accelerate in a job of several nodes, without srun or mpirun in front.

## Why it is bad
A batch script runs on the first node. The launcher there waits for the others until it times out, or trains
alone while the other nodes idle.

## Example
    #SBATCH --nodes=2
    torchrun --nnodes=2 ... train.py

## Use instead
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 ... train.py

## Reference
https://slurm.schedmd.com/srun.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import starters

CODE = "SG205"
SEVERITY = "error"
SUMMARY = "without srun only the first node works"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for launchers that run in the batch script itself. deepspeed reaches other nodes by ssh."""
    nodes = script.job.nodes
    for launch in starters(script):
        direct = launch.step is None and launch.under("mpirun") is None
        if nodes and nodes > 1 and direct and launch.kind != "deepspeed":
            yield Finding(
                launch.span,
                f"{launch.kind} runs on the first of {nodes} nodes only",
                "put `srun` in front, with one task a node",
            )
