"""A step with one task on each node."""

from slurmgen.slurm.shell import quote


def on_each_node(command: str, nodes: int, *, export_all: bool) -> list[str]:
    """The lines of a batch script that run a command once on each of its nodes.

    Args:
        command: the shell command.
        nodes: the nodes of the job.
        export_all: pass the whole environment, whatever `--export` of the job says.
    """
    comment = ["# shellcheck disable=SC2016  # each node expands its own variables"] if "$" in command else []
    return [*comment, f"{node_step(nodes, export_all=export_all)} bash -c {quote(command)}"]


def node_step(nodes: int, *, export_all: bool) -> str:
    """The srun of such a step: one task on each node."""
    export = " --export=ALL" if export_all else ""
    return f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1{export}"
