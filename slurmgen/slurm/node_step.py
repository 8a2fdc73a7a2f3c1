"""A step with one task on each node."""

from slurmgen.slurm.shell import quote

EXPORT_ALL = "--export=ALL"
"""Without it, srun inherits the `--export=NONE` of the user, of the site's sbatch, or of SRUN_EXPORT_ENV.
https://slurm.schedmd.com/srun.html#OPT_SLURM_EXPORT_ENV"""


def on_each_node(command: str, nodes: int) -> list[str]:
    """The lines of a batch script that run a command once on each of its nodes.

    Args:
        command: the shell command.
    """
    comment = ["# shellcheck disable=SC2016  # each node expands its own variables"] if "$" in command else []
    return [*comment, f"{node_step(nodes)} bash -c {quote(command)}"]


def node_step(nodes: int) -> str:
    """The srun of such a step: one task on each node."""
    return f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 {EXPORT_ALL}"
