"""lightning: Slurm starts one task a GPU, and Lightning finds its rank in Slurm's variables.

Lightning checks the number of tasks against `Trainer(devices=, num_nodes=)` and fails
when they differ (Lightning-AI/pytorch-lightning issue 18650).
"""

from slurmgen.launchers.base import Command, Geometry, Launcher, Options, several_ranks


def command(_geometry: Geometry, _options: Options) -> Command:
    """`python SCRIPT`, once a GPU."""
    return Command(("python",))


LAUNCHER = Launcher(
    name="lightning",
    task_per_gpu=True,
    why="Lightning takes one Slurm task a GPU as its ranks",
    command=command,
    meets=several_ranks,
    refused_names=("bash", "interactive"),  # its SLURMEnvironment takes these for `salloc` sessions
    bundled_script="training/cifar_lightning.py",
)
