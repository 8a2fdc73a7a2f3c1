"""What a launcher is: the shape of its tasks, and the command each task runs.

The shape follows from the framework; it is not an option. The world size is always
nodes x ntasks_per_node x procs_per_task: one rank per GPU, or one process per node that uses all of its GPUs.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

Tasks = Literal["task-per-gpu", "rank-per-gpu", "process-per-node"]
"""One task per GPU, each a rank; or one task per node, which starts a rank per GPU or is the only one."""


class Layout(NamedTuple):
    """How the GPUs of a job are spread over nodes; a job without GPUs has 0 on each node."""

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.nodes * self.gpus_per_node


class Options(NamedTuple):
    """The launcher options that a request may set."""

    rendezvous: str = "static"
    mixed_precision: str | None = None
    torchrun: tuple[str, ...] = ()
    "The words that replace `torchrun`, and further options of it."
    torchrun_options: tuple[str, ...] = ()
    mpi: str = "pmix"
    "The type of MPI, for srun."
    config: str | None = None
    "The launcher's own configuration file, as a shell word."
    labels: tuple[str, ...] = ()
    "Its options that label each line with the rank."
    further: tuple[str, ...] = ()
    "Further options of the launcher, as shell words."


class Command(NamedTuple):
    """The head of the command that a task runs; the program and its arguments follow."""

    words: tuple[str, ...]
    "Shell words, quoted for the script."
    expands_in_task: bool = False
    "Some words differ from task to task, so the batch script must not expand them."
    srun: tuple[str, ...] = ()
    "Options of srun that it needs; they replace the site's."
    script: str | None = None
    "A shell script that each task runs; it gets the words and the program as its arguments."
    arguments: tuple[str, ...] = ()
    "Further arguments of the program."


def no_variables(_layout: Layout) -> dict[str, str]:
    """None: the framework finds all it needs."""
    return {}


def python(_layout: Layout, _options: Options) -> Command:
    """`python SCRIPT`, once per task."""
    return Command(("python",))


class Launcher(NamedTuple):
    """How one framework starts its ranks."""

    name: str
    shape: Tasks
    why: str
    "The reason for that shape."
    meets: Callable[[Layout], bool]
    "Whether the ranks need MASTER_ADDR and MASTER_PORT from the batch script."
    command: Callable[[Layout, Options], Command] = python
    bundled_script: str | None = None
    "The script of a request that names none; None: a request must name its program."
    takes: tuple[str, ...] = ()
    "The fields of a request that it supports, of those that few launchers support."
    program: tuple[str, ...] | None = ()
    "Its option before a program that is not Python; empty: the program replaces the head; None: impossible."
    reserved: tuple[str, ...] = ()
    "Its options that a request may not set, besides options of its command."
    max_nodes: int | None = None
    any_tasks: bool = False
    "Whether it may start any number of tasks on a node, instead of one for each GPU."
    before: tuple[str, ...] = ()
    "Lines of the batch script before the step."
    exports: tuple[str, ...] = ()
    "Variables that these lines export."
    sets: tuple[str, ...] = ()
    "Variables that it sets for its ranks, over any earlier value."
    restart_env: dict[str, tuple[str, str]] = {}
    "Variables that a job needs whose launcher restarts its ranks: value and reason."
    task_env: Callable[[Layout], dict[str, str]] = no_variables
    "Variables that each task exports for it."
    why_task_env: str = "PyTorch's name of Slurm's variable"
    needs_workers: bool = False
    "Whether tasks on several nodes need TF_WORKERS from the batch script."
    refused_engines: dict[str, str] = {}
    "Container engines that it does not work in, with the reason."
    labels: Literal["srun", "torchrun"] | None = "srun"
    "What can label each line with its rank; None: the ranks share the output of one process."
    requeue_signal: str = "USR2"
    "How --requeue asks its ranks to save their state: USR2, TERM or file."
    why_not_term: str | None = None
    "Why TERM does not work with it."
    threads: str | None = None
    "Why OMP_NUM_THREADS is left to it."
    refused_names: tuple[str, ...] = ()
    "Job names that make the framework ignore Slurm."

    def ntasks_per_node(self, gpus_per_node: int) -> int:
        """Tasks that srun starts on each node."""
        return gpus_per_node if self.shape == "task-per-gpu" else 1

    def procs_per_task(self, gpus_per_node: int) -> int:
        """Ranks that each task starts or is."""
        return gpus_per_node if self.shape == "rank-per-gpu" else 1

    def gpus_per_task(self, gpus_per_node: int) -> int:
        """GPUs that each task uses."""
        return 1 if self.shape == "task-per-gpu" else gpus_per_node


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
    return layout.gpus > 1
