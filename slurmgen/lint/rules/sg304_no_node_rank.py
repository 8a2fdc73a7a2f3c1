"""Launchers on several nodes have no node rank.

## What it checks
Checks for torchrun with a static rendezvous on several nodes without `--node-rank`, and for accelerate on
several machines without `--machine_rank`.

## Why it matters
With torchrun, every node acts as the first one, and all of them wait for each other forever. accelerate stops
at once.

## Example
    srun torchrun --nnodes=2 --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py

## Use instead
    srun bash -c 'torchrun --nnodes=2 --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" ... train.py'

## When to ignore
If the environment of the job sets the rank.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html ; huggingface/accelerate issue 1239
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import rank_launchers, several_nodes

CODE = "SG304"
SEVERITY = "error"
SUMMARY = "launchers on several nodes have no node rank"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check launchers that run on several nodes and have a rendezvous address."""
    for launch in rank_launchers(script):
        option = _missing(launch)
        if option and several_nodes(script, launch):
            yield Finding(
                launch.span,
                f"{option} is missing, so every node is node 0",
                f"""start it with `bash -c '...'`, and add `{option}="$SLURM_NODEID"`""",
            )


def _missing(launch: Launch) -> str | None:
    options = launch.options
    if launch.kind == "accelerate":
        several = (options.number("num-machines") or 0) > 1
        return "--machine_rank" if several and options.lacks("machine-rank", "config-file") else None
    static = "master-addr" in options.given and options.text("rdzv-backend") in (None, "static")
    lacks = (
        options.lacks("node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-conf")
        and "PET_NODE_RANK" not in launch.env
    )
    return "--node-rank" if launch.kind == "torchrun" and static and lacks else None
