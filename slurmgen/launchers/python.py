"""python: one process on one GPU."""

from slurmgen.launchers.base import Command, Geometry, Launcher, Options, never


def command(_geometry: Geometry, _options: Options) -> Command:
    """`python SCRIPT`."""
    return Command(("python",))


LAUNCHER = Launcher(
    name="python",
    task_per_gpu=False,
    why="one process does all the work",
    command=command,
    meets=never,
    bundled_script="training/cifar_ddp.py",  # which runs as one process too
    max_world_size=1,
)
