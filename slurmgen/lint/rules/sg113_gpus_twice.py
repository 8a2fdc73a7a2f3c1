"""The header requests GPUs with both `--gres=gpu` and `--gpus-per-node`.

## What it checks
Checks for both options in one header.

## Why it matters
The options are mutually exclusive from Slurm 26.05: sbatch rejects the script. Older versions accept them. If
the numbers differ, Slurm 22.05 allocates that of `--gres`, and srun requests that of `--gpus-per-node` and
fails.

## Example
    #SBATCH --gres=gpu:4
    #SBATCH --gpus-per-node=4

## Use instead
    #SBATCH --gpus-per-node=4

## When to ignore
On a cluster whose Slurm is older, if both numbers agree.

## Reference
https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-26.05.md
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG113"
SEVERITY = "warning"
SUMMARY = "Slurm 26.05 rejects --gres=gpu with --gpus-per-node"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search each part of a heterogeneous job for both options."""
    for component in range(script.header.components):
        given = [d for d in script.header.directives if d.component == component]
        gres = [d for d in given if d.name == "gres" and "gpu" in d.value]
        per_node = [d for d in given if d.name == "gpus-per-node"]
        if gres and per_node:
            yield Finding(
                max(gres[-1].span, per_node[-1].span),
                "--gres=gpu and --gpus-per-node are mutually exclusive from Slurm 26.05",
                "keep one of them",
            )
