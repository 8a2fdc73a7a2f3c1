"""What a launcher is: the shape of its tasks, and the command each task runs.

The shape follows from the framework and nobody is asked for it. Always
nodes x ntasks_per_node x procs_per_task = world size = nodes x GPUs per node.
"""

from collections.abc import Callable
from typing import NamedTuple


class Geometry(NamedTuple):
    """Where the ranks run."""

    nodes: int
    gpus_per_node: int

    @property
    def world_size(self) -> int:
        """Ranks in all: one a GPU."""
        return self.nodes * self.gpus_per_node


class Options(NamedTuple):
    """What a request may change about a launch."""

    rendezvous: str = "static"
    mixed_precision: str = "no"


class Command(NamedTuple):
    """The head of the command that a task runs; the script and its arguments follow."""

    words: tuple[str, ...]
    "Shell words, ready to stand in a script."
    expands_in_task: bool = False
    "Some words differ from task to task, so that the batch script must not expand them."


class Launcher(NamedTuple):
    """One framework's way to start its ranks."""

    name: str
    task_per_gpu: bool
    "One task a GPU, each of them a rank; else one task a node, which starts a rank a GPU."
    why: str
    "The reason for that shape, in a sentence."
    command: Callable[[Geometry, Options], Command]
    meets: Callable[[Geometry], bool]
    "Whether the ranks need MASTER_ADDR and MASTER_PORT from the batch script."
    bundled_script: str
    "What a request without a script runs."
    options: tuple[str, ...] = ()
    "The fields of Options that mean something to it."
    max_world_size: int | None = None
    sets: tuple[str, ...] = ()
    "Variables that it sets for its ranks itself, whatever they were before."
    refused_names: tuple[str, ...] = ()
    "Job names that make the framework ignore Slurm."

    def ntasks_per_node(self, gpus_per_node: int) -> int:
        """Tasks that srun starts on each node."""
        return gpus_per_node if self.task_per_gpu else 1

    def procs_per_task(self, gpus_per_node: int) -> int:
        """Ranks that each task becomes."""
        return 1 if self.task_per_gpu else gpus_per_node


def never(_geometry: Geometry) -> bool:
    """False: there is nobody to find."""
    return False


def several_nodes(geometry: Geometry) -> bool:
    """True if ranks must find each other across nodes."""
    return geometry.nodes > 1


def several_ranks(geometry: Geometry) -> bool:
    """True if there is more than one rank."""
    return geometry.world_size > 1
