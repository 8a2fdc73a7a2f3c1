"""CPUs, memory and time: from the request, then the site, then a stated default; each with its reason."""

from math import gcd
from typing import TypeVar

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.launchers import Launcher
from slurmgen.plan.layout import Layout
from slurmgen.plan.reasons import PROFILE, Origin, Reason, default, derived, from_profile
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.slurm import durations, sizes
from slurmgen.text import counted

T = TypeVar("T")

DEFAULT_CPUS_PER_GPU = 4
DEFAULT_MEM_PER_GPU = "16G"
DEFAULT_TIME = "01:00:00"
MOST_MEMORY = "64T"
MOST_DAYS = 366
"More memory on a node or a longer time limit is a typing error."


class Reasoned(Struct, frozen=True, gc=False):
    """A value and why it is that."""

    value: str | None
    why: Reason


class Cpus(Struct, frozen=True, gc=False):
    """CPUs of a rank and of a task."""

    per_gpu: int
    per_task: int
    why: Reason


def cpus(
    request: Request, origin: Origin, site: Site, launcher: Launcher, layout: Layout, node: Node
) -> Cpus:
    """CPUs for each task.

    Raises:
        RequestError: not a multiple of what the site allocates, or more than a node has.
    """
    per_gpu, source = _first(
        (request.cpus_per_gpu, origin("cpus_per_gpu")),
        (site.cpu.per_gpu, from_profile(site)),
        (_share(node.cpus, node.gpus, site.cpu.multiple_of), derived("a GPU's share of a node")),
        (DEFAULT_CPUS_PER_GPU, default("slurmgen's default, as the site does not say")),
    )
    procs = launcher.procs_per_task(layout.gpus_per_node)
    per_task, multiple = per_gpu * procs, site.cpu.multiple_of
    if per_task % multiple:
        step = multiple // gcd(multiple, procs)
        below = per_gpu // step * step
        choices = [str(count) for count in (below, below + step) if count]
        asked = counted(per_task, "CPU")
        raise RequestError(
            f"{asked} per task is not a multiple of {multiple}, as {site.name} gives them out",
            f"Ask for --cpus-per-gpu {' or '.join(choices)}.",
        )
    total = per_gpu * layout.gpus_per_node
    if node.cpus and total > node.cpus:
        raise RequestError(
            f"{total} CPUs per node are asked for, but a node of {site.name} has {node.cpus}",
            f"Ask for at most --cpus-per-gpu {node.cpus // layout.gpus_per_node}."
            if node.cpus >= layout.gpus_per_node
            else "Ask for fewer GPUs on each node.",
        )
    share = f" x {procs} ranks per task" if procs > 1 else ""
    return Cpus(per_gpu, per_task, source.within(f"{counted(per_gpu, 'CPU')} per GPU ({{}}){share}"))


def memory(request: Request, origin: Origin, site: Site, layout: Layout, node: Node) -> Reasoned:
    """Memory of one node; None where the site wants none said.

    Raises:
        RequestError: it is no size, the site forbids it, or a node has less.
    """
    if site.memory.form == "none":
        if request.mem:
            raise RequestError(f"{site.name} takes no memory request", "Leave --mem out.")
        return Reasoned(None, Reason(PROFILE, f"{site.name} gives memory with the GPUs"))
    if request.mem:
        total, why = _size(request.mem), origin("mem")
    else:
        per_gpu, source = _first(
            (site.memory.per_gpu, from_profile(site)),
            (_memory_share(node), derived("a GPU's share of a node")),
            (DEFAULT_MEM_PER_GPU, default("slurmgen's default, as the site does not say")),
        )
        total = sizes.megabytes(per_gpu) * layout.gpus_per_node
        why = source.within(f"{per_gpu} per GPU ({{}}) x {layout.gpus_per_node} per node")
    if node.memory and total > sizes.megabytes(node.memory):
        raise RequestError(
            f"{sizes.canonical(total)} per node is asked for, but a node of {site.name} has {node.memory}",
            f"Ask for at most --mem {node.memory}.",
        )
    return Reasoned(sizes.canonical(total) if total else "0", why)


def _share(total: int | None, gpus: int | None, multiple: int) -> int | None:
    """What one GPU gets of a node, rounded down to a multiple; None if that is not known or nothing."""
    return (total // gpus // multiple * multiple or None) if total and gpus else None


def _memory_share(node: Node) -> str | None:
    total = sizes.megabytes(node.memory) if node.memory else None
    gibibytes = _share(total, node.gpus, 1024)
    return sizes.canonical(gibibytes) if gibibytes else None


def _size(text: str) -> int:
    form = "Write a whole number with M, G or T, such as 64G."
    try:
        total = sizes.megabytes(text)
    except ValueError:
        raise RequestError(f"--mem {text!r} is not a size", form) from None
    if total > sizes.megabytes(MOST_MEMORY):
        raise RequestError(f"--mem {text} is more than any node has: {MOST_MEMORY}", form)
    return total


def time(request: Request, origin: Origin, site: Site, limits: dict[str, Limits]) -> Reasoned:
    """Time limit in one form; `limits` are those that hold for the job, by what sets them.

    Raises:
        RequestError: it is no time, or over a limit.
    """
    text, why = _first(
        (request.time, origin("time")),
        (site.time if durations.limit(site.time) else None, from_profile(site)),
        (DEFAULT_TIME, default("slurmgen's default, as neither you nor the site says")),
    )
    total = _duration(text)
    for name, limit in limits.items():
        if (most := limit.max_seconds) is not None and total > most:
            if request.time:
                asked = f"--time {text} is {durations.canonical(total)}"
                raise RequestError(
                    f"{asked}, but {name} ends jobs after {limit.max_time}",
                    f"Ask for at most --time {limit.max_time}.",
                )
            total, why = most, Reason(PROFILE, f"the limit of {name}")
    return Reasoned(durations.canonical(total), why)


def _duration(text: str) -> int:
    form = "Write HH:MM:SS or D-HH:MM:SS, such as 04:00:00."
    try:
        total = durations.seconds(text)
    except ValueError:
        raise RequestError(f"--time {text!r} is not a Slurm time", form) from None
    if not total:
        raise RequestError(f"--time {text} is no time at all", form)
    if total > MOST_DAYS * 86_400:
        raise RequestError(f"--time {text} is longer than a year", form)
    return total


def _first(*choices: tuple[T | None, Reason]) -> tuple[T, Reason]:
    """The first choice that is said, with its source."""
    for value, why in choices:
        if value is not None:
            return value, why
    raise ValueError(choices)
