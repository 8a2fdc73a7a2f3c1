"""The job as a diagram: its nodes, and on each the tasks, ranks, GPUs and CPUs."""

from msgspec import Struct

from slurmgen.plan import Plan
from slurmgen.text import counted

MOST_NODES = 4
MOST_TASKS = 8
MOST_RANKS = 16
"Shown of each; a number says how many more there are."


class Task(Struct, frozen=True):
    """One task of a node."""

    ranks: tuple[int, ...]
    "The global numbers of its first ranks."
    more_ranks: int
    gpus: int
    cpus: int


class Picture(Struct, frozen=True):
    """The first nodes of a job with their first tasks."""

    text: str
    "The diagram in words."
    nodes: tuple[tuple[Task, ...], ...]
    more_nodes: int
    more_tasks: int
    "On each node."


def picture_of(plan: Plan) -> Picture:
    """The diagram of a job."""
    shown = min(plan.nodes, MOST_NODES)
    return Picture(
        text=_text(plan),
        nodes=tuple([_tasks(plan, node) for node in range(shown)]),
        more_nodes=plan.nodes - shown,
        more_tasks=max(0, plan.ntasks_per_node - MOST_TASKS),
    )


def _tasks(plan: Plan, node: int) -> tuple[Task, ...]:
    each, ranks = plan.ntasks_per_node, plan.procs_per_task
    gpus = plan.ranks.launcher.gpus_per_task(plan.gpus_per_node) if plan.gpus_per_node else 0
    first = [(node * each + task) * ranks for task in range(min(each, MOST_TASKS))]
    return tuple(
        [
            Task(
                ranks=tuple(range(start, start + min(ranks, MOST_RANKS))),
                more_ranks=max(0, ranks - MOST_RANKS),
                gpus=gpus,
                cpus=plan.cpus_per_task,
            )
            for start in first
        ]
    )


def _text(plan: Plan) -> str:
    each = " each" if plan.nodes > 1 else ""
    gpus = f", {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ", no GPU"
    cpus = counted(plan.cpus_per_task * plan.ntasks_per_node, "CPU")
    tasks, ranks = counted(plan.ntasks_per_node, "task"), counted(plan.procs_per_task, "rank")
    runs = f", for each of {counted(len(plan.sweep.runs), 'run')}" if plan.sweep else ""
    return f"{counted(plan.nodes, 'node')}{each} with {tasks} of {ranks}{gpus}, {cpus}{runs}"
