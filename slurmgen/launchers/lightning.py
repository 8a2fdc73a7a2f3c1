"""lightning: Slurm starts one task per GPU, and Lightning reads its rank from Slurm's variables.

Lightning checks the number of tasks against `Trainer(devices=, num_nodes=)` and fails
when they differ (Lightning-AI/pytorch-lightning issue 18650).
"""

from slurmgen.launchers.base import Launcher, several_ranks

LAUNCHER = Launcher(
    name="lightning",
    shape="task-per-gpu",
    why="Lightning treats each Slurm task as one rank",
    meets=several_ranks,
    why_not_term="Lightning's handler of TERM waits for the other ranks, which may be in another step",
    refused_names=("bash", "interactive"),  # its SLURMEnvironment treats these as `salloc` sessions
    bundled_script="training/train_lightning.py",
)
