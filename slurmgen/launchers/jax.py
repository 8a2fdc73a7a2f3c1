"""jax: Slurm starts one task per GPU, and `jax.distributed.initialize()` without arguments joins them.

JAX reads the number of processes, its own number and its GPU from SLURM_NTASKS, SLURM_PROCID and
SLURM_LOCALID. The GPU is an index into all GPUs of the node, which `--gpus-per-task` would hide
(jax-ml/jax issue 28194).
JAX would also derive an address from SLURM_STEP_NODELIST; the batch script's follows the rule of the site.
https://docs.jax.dev/en/latest/multi_process.html
"""

from slurmgen.launchers.base import Launcher, always

LAUNCHER = Launcher(
    name="jax",
    shape="task-per-gpu",
    why="each Slurm task is one process of JAX, with one GPU",
    meets=always,  # a single process joins a group of one
    sets=("JAX_COORDINATOR_ADDRESS",),
    task_env=lambda _layout: {"JAX_COORDINATOR_ADDRESS": "$MASTER_ADDR:$MASTER_PORT"},
    why_task_env="the address that the batch script finds by the rule of the site",
)
