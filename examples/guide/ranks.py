"""Print this rank's place in the job, under torchrun, accelerate or srun; refuse to run without a launcher.

torchrun --standalone --nproc-per-node=2 ranks.py
accelerate launch --multi_gpu --num_processes=2 ... ranks.py
srun python ranks.py
"""

import os
import socket
import sys
from dataclasses import dataclass


@dataclass
class Place:
    """Where this process is in the job."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    node_rank: int


# The variable of each launcher for: rank, world size, local rank, node rank.
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")
SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID")


def place():
    """The variables of torchrun come first: under `srun torchrun`, SLURM_PROCID counts launchers, not ranks."""
    if "RANK" in os.environ:
        launcher, names = "torchrun", TORCHRUN
        if any(name.startswith("ACCELERATE_") for name in os.environ):
            launcher = "accelerate"
    elif "SLURM_STEP_ID" in os.environ:
        launcher, names = "srun", SRUN
    else:
        raise SystemExit(refusal())
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise SystemExit(
            f"error: {launcher} did not set {', '.join(missing)}. Start all ranks with one launcher"
        )
    return Place(launcher, *(int(os.environ[name]) for name in names))


def refusal():
    """Each process would train a complete copy, or wait for ranks that never start."""
    script = sys.argv[0]
    if "SLURM_JOB_ID" in os.environ:
        return (
            f"error: this process is in a Slurm job, but no launcher started it. Write: srun python {script}"
        )
    return f"error: no launcher started this process. Run: torchrun --standalone --nproc-per-node=2 {script}"


def main():
    here = place()
    print(
        f"rank {here.rank} of {here.world_size}: local rank {here.local_rank} on node {here.node_rank} "
        f"({os.environ.get('SLURMD_NODENAME', socket.gethostname())}), started by {here.launcher}",
        flush=True,
    )


if __name__ == "__main__":
    main()
