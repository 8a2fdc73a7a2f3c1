"""spawn: one task per node, whose script starts a process per GPU by `torch.multiprocessing.spawn`.

The script computes the rank of process i of its node: NODE_RANK * LOCAL_WORLD_SIZE + i. As for torchrun,
WORLD_SIZE counts ranks, not nodes.
https://docs.pytorch.org/docs/stable/multiprocessing.html#spawning-subprocesses
"""

from slurmgen.launchers.base import Launcher, Layout, always


def variables(layout: Layout) -> dict[str, str]:
    """What the script needs to number its processes."""
    return {
        "NODE_RANK": "$SLURM_NODEID",
        "NNODES": str(layout.nodes),
        "LOCAL_WORLD_SIZE": str(layout.gpus_per_node),
        "WORLD_SIZE": str(layout.gpus),
    }


LAUNCHER = Launcher(
    name="spawn",
    shape="rank-per-gpu",
    why="the script spawns one process per GPU",
    labels=None,
    meets=always,  # a single rank joins a process group too
    sets=("NODE_RANK", "NNODES", "LOCAL_WORLD_SIZE", "WORLD_SIZE"),
    task_env=variables,
    why_task_env="the numbers that the script needs",
)
