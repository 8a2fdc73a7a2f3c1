"""python: one process on one GPU."""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, never


def command(_layout: Layout, _options: Options) -> Command:
    """`python SCRIPT`."""
    return Command(("python",))


LAUNCHER = Launcher(
    name="python",
    task_per_gpu=False,
    why="one process does all the work",
    command=command,
    meets=never,
    bundled_script="training/train_ddp.py",  # it also runs as one process
    max_world_size=1,
)
