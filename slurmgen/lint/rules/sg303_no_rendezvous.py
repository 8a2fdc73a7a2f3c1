"""Ranks on several nodes have no rendezvous address.

## What it checks
Checks for torchrun on several nodes without `--master-addr` or `--rdzv-endpoint`, or with `--standalone`, and
for accelerate on several machines without `--main_process_ip`.

## Why it matters
Each node connects only to itself: it trains on its own, or waits forever for the other nodes.

## Example
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 --nproc-per-node=4 train.py

## Use instead
    srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \\
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py'

## When to ignore
If the environment of the job sets the address, for example PET_RDZV_ENDPOINT.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html ; huggingface/accelerate issue 1239
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import rank_launchers, several_nodes

CODE = "SG303"
SEVERITY = "error"
SUMMARY = "ranks on several nodes have no rendezvous address"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check launchers that run on several nodes."""
    for launch in rank_launchers(script):
        if several_nodes(script, launch) and _lacks_address(launch):
            nodes = script.step(launch).nodes
            yield Finding(
                launch.span,
                f"each of the {nodes} nodes connects only to itself",
                _ADVICE[launch.kind],
            )


def _lacks_address(launch: Launch) -> bool:
    options = launch.options
    if launch.kind == "torchrun":
        from_env = any(name.startswith("PET_") for name in launch.env)
        return "standalone" in options.given or (
            options.lacks("master-addr", "rdzv-endpoint") and not from_env
        )
    machines = options.number("num-machines") or 0
    return launch.kind == "accelerate" and machines > 1 and options.lacks("main-process-ip", "config-file")


_ADVICE = {
    "torchrun": "add --node-rank, --master-addr and --master-port; or --rdzv-backend and --rdzv-endpoint",
    "accelerate": "add --main_process_ip, --main_process_port and --machine_rank",
}
