"""What a launcher is: the shape of its tasks, and the command each task runs.

The shape follows from the framework; it is not an option. Always
nodes x ntasks_per_node x procs_per_task = world size = nodes x GPUs per node.
"""

from collections.abc import Callable
from typing import NamedTuple


class Layout(NamedTuple):
    """How the GPUs of a job, and with them its ranks, are spread over nodes."""

    nodes: int
    gpus_per_node: int

    @property
    def world_size(self) -> int:
        """Ranks of the job: one per GPU."""
        return self.nodes * self.gpus_per_node


class Options(NamedTuple):
    """The launcher options that a request may set."""

    rendezvous: str = "static"
    mixed_precision: str = "no"
    torchrun: tuple[str, ...] = ()
    "The words that replace `torchrun`, and further options of it."
    torchrun_options: tuple[str, ...] = ()


class Command(NamedTuple):
    """The head of the command that a task runs; the script and its arguments follow."""

    words: tuple[str, ...]
    "Shell words, quoted for the script."
    expands_in_task: bool = False
    "Some words differ from task to task, so the batch script must not expand them."


class Launcher(NamedTuple):
    """How one framework starts its ranks."""

    name: str
    task_per_gpu: bool
    "One task per GPU, each of them a rank; else one task per node, which starts a rank per GPU."
    why: str
    "The reason for that shape."
    command: Callable[[Layout, Options], Command]
    meets: Callable[[Layout], bool]
    "Whether the ranks need MASTER_ADDR and MASTER_PORT from the batch script."
    bundled_script: str
    "The script of a request that names none."
    options: tuple[str, ...] = ()
    "The fields of Options that it supports."
    max_world_size: int | None = None
    sets: tuple[str, ...] = ()
    "Variables that it sets for its ranks, over any earlier value."
    task_env: dict[str, str] = {}
    "Variables that each task exports for it."
    refused_names: tuple[str, ...] = ()
    "Job names that make the framework ignore Slurm."

    def ntasks_per_node(self, gpus_per_node: int) -> int:
        """Tasks that srun starts on each node."""
        return gpus_per_node if self.task_per_gpu else 1

    def procs_per_task(self, gpus_per_node: int) -> int:
        """Ranks that each task starts or is."""
        return 1 if self.task_per_gpu else gpus_per_node


def always(_layout: Layout) -> bool:
    """True: even a single rank joins a process group."""
    return True


def never(_layout: Layout) -> bool:
    """False: a single process needs no rendezvous."""
    return False


def several_nodes(layout: Layout) -> bool:
    """True if ranks must find each other across nodes."""
    return layout.nodes > 1


def several_ranks(layout: Layout) -> bool:
    """True if there is more than one rank."""
    return layout.world_size > 1
