"""Lightning's num_nodes are not the nodes of the job.

## What it finds
With the training script at hand, `Trainer(num_nodes=N)` under an srun on another number of nodes; left out,
it is 1.

## Why it is bad
The ranks disagree on how many there are, and wait for each other until they time out.

## Example
    #SBATCH --nodes=2        # Trainer(devices=4)

## Use instead
    #SBATCH --nodes=2        # Trainer(devices=4, num_nodes=2)

## Reference
https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.training import calls
from slurmgen.wording import counted

CODE = "SG702"
SEVERITY = "error"
SUMMARY = "Lightning's num_nodes differs from the job's nodes"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each Trainer that trains on devices with the step that runs it."""
    for launch in script.launches:
        nodes = script.step(launch).nodes
        if launch.kind != "python" or launch.step is None or not nodes:
            continue
        path, trainers = calls(script, launch, "Trainer")
        for trainer in trainers:
            told = trainer.number("num_nodes", otherwise=1)
            if path and "devices" in trainer.constants and told and told != nodes:
                directive = script.header.last("nodes")
                where = f"{path.name} line {trainer.line}"
                yield Finding(
                    directive.span if directive else launch.span,
                    f"the job has {counted(nodes, 'node')}, but {where} has num_nodes={told}",
                    f"write `Trainer(num_nodes={nodes})`, or ask for --nodes={told}",
                )
