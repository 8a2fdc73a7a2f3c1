"""Every task of a step pulls the image of its container.

## What it checks
Checks for apptainer or singularity with an image in a registry, such as `docker://`, under an srun with
several tasks.

## Why it matters
All tasks download and convert the image at the same time. They fill the cache in the home directory, and the
registry may reject them.

## Example
    srun apptainer exec --nv docker://pytorch/pytorch python train.py

## Use instead
    apptainer pull pytorch.sif docker://pytorch/pytorch
    srun apptainer exec --nv pytorch.sif python train.py

## When to ignore
If the image is already in the cache of every node.

## Reference
https://apptainer.org/docs/user/main/cli/apptainer_pull.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import steps

CODE = "SG515"
SEVERITY = "warning"
SUMMARY = "every task pulls the image of the container"

_REGISTRIES = ("docker://", "oras://", "library://", "shub://")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search the steps with several tasks for an image in a registry."""
    for launch in steps(script):
        shape = script.step(launch)
        tasks = shape.ntasks or (shape.nodes or 1) * (shape.ntasks_per_node or 1)
        image = next((word for word in launch.command.words if word.text.startswith(_REGISTRIES)), None)
        if image and tasks > 1 and launch.under("apptainer"):
            yield Finding(
                image.span,
                f"each of the {tasks} tasks pulls the image",
                "pull it once before srun: `apptainer pull image.sif URL`",
            )
