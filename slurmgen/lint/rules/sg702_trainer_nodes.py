"""Lightning's `num_nodes` differs from the number of nodes of the job.

## What it checks
Compares `Trainer(num_nodes=N)` in the training script, if the file is available, with the number of nodes of
the srun that runs it. `num_nodes` defaults to 1. Only a Trainer with `devices` is checked. `num_nodes` on the
command line, such as `--trainer.num_nodes=N` or `--num_nodes N`, is compared as well.

## Why it matters
The ranks disagree about the world size, and wait for each other until they time out.

## Example
    #SBATCH --nodes=2        # Trainer(devices=4)

## Use instead
    #SBATCH --nodes=2        # Trainer(devices=4, num_nodes=2)

## When to ignore
If the arguments of the call are changed before it runs.

## Reference
https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import trainer_argument
from slurmgen.lint.training_script import calls
from slurmgen.text import counted

CODE = "SG702"
SEVERITY = "error"
SUMMARY = "Lightning's num_nodes differs from the number of nodes"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each Trainer that sets devices with the step that runs it."""
    for launch in script.launches:
        nodes = script.step(launch).nodes
        if launch.kind != "python" or launch.step is None or not nodes:
            continue
        given = trainer_argument(launch, "num_nodes") or trainer_argument(launch, "num_nodes", bare=True)
        if given and given.number != nodes:
            yield Finding(
                given.span,
                f"the step has {counted(nodes, 'node')}, but num_nodes={given.number}",
                f"write {nodes}, or request `--nodes={given.number}`",
            )
        path, trainers = calls(script, launch, "Trainer")
        for trainer in trainers:
            num_nodes = trainer.number("num_nodes", default=1)
            if path and "devices" in trainer.constants and num_nodes and num_nodes != nodes:
                directive = script.header.last("nodes")
                where = f"{path.name} line {trainer.line}"
                yield Finding(
                    directive.span if directive else launch.span,
                    f"the job has {counted(nodes, 'node')}, but {where} has num_nodes={num_nodes}",
                    f"write `Trainer(num_nodes={nodes})`, or request `--nodes={num_nodes}`",
                )
