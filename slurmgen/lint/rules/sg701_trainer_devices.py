"""Lightning's `devices` differs from the number of Slurm tasks per node.

## What it checks
Compares `Trainer(devices=N)` in the training script, if the file is available, with the number of tasks per
node of the srun that runs it, and `--trainer.devices=N` (LightningCLI) or `trainer.devices=N` (Hydra) on its
command line.

## Why it matters
Lightning uses each Slurm task as one of its ranks. If the numbers differ, it stops with "You set devices=2
... but --ntasks-per-node=1 does not match", or leaves GPUs idle.

## Example
    #SBATCH --ntasks-per-node=1        # Trainer(devices=2)
    srun python train.py

## Use instead
    #SBATCH --ntasks-per-node=2        # Trainer(devices=2)
    srun python train.py

## When to ignore
If the arguments of the call are changed before it runs.

## Reference
Lightning-AI/pytorch-lightning issues 18650 and 20391
"""

from collections.abc import Iterator

from slurmgen.launchers import LAUNCHERS
from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import trainer_argument
from slurmgen.lint.training_script import calls
from slurmgen.text import counted

CODE = "SG701"
SEVERITY = "error"
SUMMARY = "Lightning's devices differ from the tasks per node"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each Trainer with the step that runs it."""
    for launch in script.launches:
        if launch.kind != "python" or launch.step is None:
            continue
        tasks = script.step(launch).ntasks_per_node
        given = trainer_argument(launch, "devices")
        if given and tasks and given.number != tasks:
            yield Finding(
                given.span,
                f"{counted(tasks, 'task')} per node, but devices={given.number}",
                f"use `--ntasks-per-node={given.number}`; {LAUNCHERS['lightning'].why}",
            )
        path, trainers = calls(script, launch, "Trainer")
        for trainer in trainers:
            devices = trainer.number("devices")
            wanted = LAUNCHERS["lightning"].ntasks_per_node(devices) if devices else None
            if path and tasks and wanted and wanted != tasks:
                directive = script.header.last("ntasks-per-node") or script.header.last("ntasks")
                where = f"{path.name} line {trainer.line}"
                yield Finding(
                    directive.span if directive else launch.span,
                    f"{counted(tasks, 'task')} per node, but devices={devices} in {where}",
                    f"use `--ntasks-per-node={wanted}`; {LAUNCHERS['lightning'].why}",
                )
