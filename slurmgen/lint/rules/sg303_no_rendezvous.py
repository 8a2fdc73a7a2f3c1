"""Ranks of several nodes are not told where to meet.

## What it finds
torchrun on several nodes without an address, or with `--standalone`; accelerate of several machines without
`--main_process_ip`.

## Why it is bad
Every node then meets itself: each trains alone on its own, or waits for the others for ever.

## Example
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 --nproc-per-node=4 train.py

## Use instead
    srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \\
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py'

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html ; huggingface/accelerate issue 1239
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import rank_launchers, several_nodes

CODE = "SG303"
SEVERITY = "error"
SUMMARY = "ranks of several nodes have no address to meet at"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at launchers that run on several nodes."""
    for launch in rank_launchers(script):
        if several_nodes(script, launch) and _is_lost(launch):
            nodes = script.step(launch).nodes
            yield Finding(
                launch.span,
                f"each of the {nodes} nodes meets only itself",
                _ADVICE[launch.kind],
            )


def _is_lost(launch: Launch) -> bool:
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
