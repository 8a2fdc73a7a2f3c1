"""A launcher starts fewer ranks on a node than there are GPUs.

## What it checks
If a job has only one launch, compares its ranks on a node with the GPUs that the job requests per node.
torchrun starts one rank unless `--nproc-per-node` is given. A script that sets `CUDA_VISIBLE_DEVICES` or
`ROCR_VISIBLE_DEVICES` is not reported.

## Why it matters
The remaining GPUs are idle but are charged to the account.

## Example
    #SBATCH --gres=gpu:4
    srun torchrun --standalone train.py

## Use instead
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc-per-node=4 train.py

## When to ignore
If the remaining GPUs are used by another program, or hold data.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import FRAMEWORKS, procs_of, rank_launchers
from slurmgen.text import counted

CODE = "SG203"
SEVERITY = "warning"
SUMMARY = "some GPUs of a node have no rank"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the ranks of a node with its GPUs, if nothing else can use the GPUs."""
    if len(script.launches) != 1 or any(script.assigned("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")):
        return
    for launch in rank_launchers(script):
        shape, procs = script.step(launch), procs_of(script, launch)
        gpus = shape.gpus_per_node
        wanted = FRAMEWORKS[launch.kind].procs_per_task(gpus or 1)
        alone = shape.ntasks_per_node == 1 and not {"background", "loop"} & set(launch.command.place)
        if gpus and procs and procs < wanted and alone and "CUDA_VISIBLE_DEVICES" not in launch.env:
            ranks = counted(procs, "rank")
            yield Finding(
                launch.span,
                f"{launch.kind} starts {ranks} on a node with {gpus} GPUs: {gpus - procs} idle",
                f"start {wanted} ranks per node, or request fewer GPUs",
            )
