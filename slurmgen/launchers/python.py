"""python: one process on one node, with any number of its GPUs, or with none."""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, never


def command(_layout: Layout, _options: Options) -> Command:
    """`python SCRIPT`."""
    return Command(("python",))


LAUNCHER = Launcher(
    name="python",
    shape="process-per-node",
    why="one process does all the work",
    command=command,
    meets=never,
    bundled_script="training/train_ddp.py",  # it also runs as one process
    max_nodes=1,
)
