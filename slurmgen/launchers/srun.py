"""srun: Slurm starts one task per GPU, and each task is one rank of PyTorch, without torchrun.

Each task exports the variables that torchrun would set, from Slurm's own. All tasks of a node see all of
its GPUs, as NCCL needs, so that the local rank is the index of the GPU. On a site that binds one GPU to each
task, the profile sets LOCAL_RANK to 0 in `[env.task]`.
"""

from slurmgen.launchers.base import Launcher, always

VARIABLES = {
    "RANK": "$SLURM_PROCID",
    "LOCAL_RANK": "$SLURM_LOCALID",
    "WORLD_SIZE": "$SLURM_NTASKS",
    "LOCAL_WORLD_SIZE": "$SLURM_NTASKS_PER_NODE",
    "GROUP_RANK": "$SLURM_NODEID",
}
"""PyTorch's variables of a rank. https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables"""


LAUNCHER = Launcher(
    name="srun",
    shape="task-per-gpu",
    why="each Slurm task is one rank of PyTorch",
    meets=always,  # a script for torchrun joins a group of one rank too
    bundled_script="training/train_ddp.py",
    sets=tuple(VARIABLES),
    task_env=lambda _layout: VARIABLES,
)
