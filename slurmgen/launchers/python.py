"""python: one process on one node, with any number of its GPUs, or with none."""

from slurmgen.launchers.base import Launcher, never

LAUNCHER = Launcher(
    name="python",
    shape="process-per-node",
    why="one process does all the work",
    meets=never,
    bundled_script="training/train_ddp.py",  # it also runs as one process
    max_nodes=1,
)
