"""A launcher starts more ranks on a node than there are GPUs.

## What it checks
Compares the number of ranks that a launcher starts on a node with the number of GPUs that the job requests
per node, and with those in CUDA_VISIBLE_DEVICES if the script sets it. Launches with `--cpu` are not
reported.

## Why it matters
NCCL rejects two ranks on one GPU ("duplicate GPU detected"), or a rank selects a device that does not exist
("invalid device ordinal").

## Example
    #SBATCH --gres=gpu:2
    srun torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --gres=gpu:2
    srun torchrun --standalone --nproc-per-node=2 train.py

## When to ignore
If the ranks share the GPUs on purpose, for example with the backend gloo or MPS.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import FRAMEWORKS, procs_of, rank_launchers, visible_gpus
from slurmgen.text import counted

CODE = "SG202"
SEVERITY = "error"
SUMMARY = "a node has more ranks than GPUs"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the ranks of each launcher with the GPUs of a node."""
    for launch in rank_launchers(script):
        counts = (script.step(launch).gpus_per_node, visible_gpus(launch))
        gpus, procs = min(filter(None, counts), default=None), procs_of(script, launch)
        if (
            gpus
            and procs
            and procs > FRAMEWORKS[launch.kind].procs_per_task(gpus)
            and "cpu" not in launch.options.given
        ):
            yield Finding(
                launch.span,
                f"{launch.kind} starts {procs} ranks on a node with {counted(gpus, 'GPU')}",
                f"start {counted(gpus, 'rank')} per node, one per GPU",
            )
