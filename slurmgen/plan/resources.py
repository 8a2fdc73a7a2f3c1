"""CPUs, memory and time: from the request, else the site, else a default; each with its reason."""

from math import gcd
from typing import TypeVar

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.reasons import PROFILE, Origin, Reason, default, derived, from_profile
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.sites.nodes import Place, gives_whole_nodes
from slurmgen.slurm import durations, sizes
from slurmgen.slurm.sbatch_options import leaves_out
from slurmgen.text import counted

T = TypeVar("T")

DEFAULT_CPUS_PER_GPU = 4
DEFAULT_MEM_PER_GPU = "16G"
DEFAULT_CPUS = 4
DEFAULT_MEM_PER_CPU = "4G"
DEFAULT_TIME = "01:00:00"
MOST_MEMORY = "64T"
MOST_DAYS = 366
"More memory per node or a longer time limit is taken for a typing error."


_NO_FACT = "slurmgen's default, because the profile sets none"


class Reasoned(Struct, frozen=True):
    """A value and its reason."""

    value: str | None
    why: Reason


class Cpus(Struct, frozen=True):
    """CPUs of a rank, a task and a node."""

    per_rank: int
    per_task: int
    per_node: int
    why: Reason


def cpus(
    request: Request, origin: Origin, site: Site, launcher: Launcher, layout: Layout, place: Place
) -> Cpus:
    """CPUs for each task.

    Raises:
        RequestError: not a multiple of what the site allocates, or more than a node has.
    """
    node = place.node
    if not layout.gpus:
        return _cpus_without_gpus(request, origin, site, place)
    if request.cpus:
        return _cpus_of_tasks(request, origin, site, launcher, layout, node)
    per_gpu, source = _first(
        (request.cpus_per_gpu, origin("cpus_per_gpu")),
        (node.cpus_per_gpu, from_profile(site, "node.cpus_per_gpu")),
        (site.cpu.per_gpu, from_profile(site, "cpu.per_gpu")),
        (_share(node.cpus, node.gpus, site.cpu.multiple_of), derived("a GPU's share of a node")),
        (DEFAULT_CPUS_PER_GPU, default(_NO_FACT)),
    )
    if site.cpu.exact and request.cpus_per_gpu not in (None, site.cpu.per_gpu):
        raise RequestError(
            f"--cpus-per-gpu {request.cpus_per_gpu}, but {site.name} allows exactly {site.cpu.per_gpu}",
            "Leave --cpus-per-gpu out.",
        )
    gpus = launcher.gpus_per_task(layout.gpus_per_node)
    _check_multiple(site, per_gpu, gpus)
    _check_node(site, per_gpu, layout.gpus_per_node, node)
    procs = launcher.procs_per_task(layout.gpus_per_node)
    unit = "ranks" if procs > 1 else "GPUs"
    share = f" x {gpus} {unit} per task" if gpus > 1 else ""
    why = source.within(f"{counted(per_gpu, 'CPU')} per GPU ({{}}){share}")
    return Cpus(per_gpu * gpus // procs, per_gpu * gpus, per_gpu * layout.gpus_per_node, why)


def _cpus_of_tasks(
    request: Request, origin: Origin, site: Site, launcher: Launcher, layout: Layout, node: Node
) -> Cpus:
    """CPUs of a job with GPUs that names those of each task."""
    if request.cpus_per_gpu:
        raise RequestError("--cpus and --cpus-per-gpu exclude each other", "Leave one out.")
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    reserved = request.ntasks_per_node or own
    tasks = reserved if launcher.any_tasks else own
    per_node = (request.cpus or 0) * reserved
    if node.cpus and per_node > node.cpus:
        raise RequestError(
            f"the job needs {per_node} CPUs per node, but a node of {site.name} has {node.cpus}",
            f"Ask for at most --cpus {max(node.cpus // reserved, 1)}.",
        )
    if (request.cpus or 0) % site.cpu.multiple_of:
        raise RequestError(
            f"--cpus {request.cpus}: {site.name} allocates CPUs in multiples of {site.cpu.multiple_of}",
            "Leave --cpus out, or ask for a multiple.",
        )
    per_task = max(per_node // tasks, 1)
    per_rank = max(per_task // launcher.procs_per_task(layout.gpus_per_node), 1)
    return Cpus(per_rank, per_task, per_node, origin("cpus"))


def _check_multiple(site: Site, per_gpu: int, gpus: int) -> None:
    """Refuse a number of CPUs of a task with so many GPUs that the site does not allocate."""
    multiple, per_task = site.cpu.multiple_of, per_gpu * gpus
    if per_task % multiple:
        step = multiple // gcd(multiple, gpus)
        below = per_gpu // step * step
        choices = [str(count) for count in (below, below + step) if count]
        raise RequestError(
            f"{counted(per_task, 'CPU')} per task: {site.name} allocates CPUs in multiples of {multiple}",
            f"Ask for --cpus-per-gpu {' or '.join(choices)}.",
        )


def _check_node(site: Site, per_gpu: int, gpus: int, node: Node) -> None:
    """Refuse more CPUs than a node has, of which the job uses so many GPUs."""
    if node.cpus and per_gpu * gpus > node.cpus:
        raise RequestError(
            f"the job needs {per_gpu * gpus} CPUs per node, but a node of {site.name} has {node.cpus}",
            f"Ask for at most --cpus-per-gpu {node.cpus // gpus}."
            if node.cpus >= gpus
            else "Ask for fewer GPUs on each node.",
        )


def _cpus_without_gpus(request: Request, origin: Origin, site: Site, place: Place) -> Cpus:
    """CPUs of the only task of each node: all of them where a job gets whole nodes."""
    multiple, node = site.cpu.multiple_of, place.node
    of_node = node.cpus if gives_whole_nodes(site, place) else None
    usual = -(-DEFAULT_CPUS // multiple) * multiple
    count, source = _first(
        (request.cpus, origin("cpus")),
        (of_node, Reason(PROFILE, "all of a node, since jobs get whole nodes")),
        (usual, default("slurmgen's default for a job without GPUs")),
    )
    if count % multiple:
        raise RequestError(
            f"{counted(count, 'CPU')}: {site.name} allocates CPUs in multiples of {multiple}",
            f"Ask for --cpus {count // multiple * multiple + multiple}.",
        )
    if node.cpus and count > node.cpus:
        raise RequestError(
            f"--cpus {count}, but a node of {site.name} has {node.cpus}",
            f"Ask for at most --cpus {node.cpus}.",
        )
    return Cpus(count, count, count, source)


def memory(request: Request, origin: Origin, site: Site, layout: Layout, node: Node, cpus: int) -> Reasoned:
    """Memory of one node, of which the job has so many CPUs; None where the site allows no memory request.

    Raises:
        RequestError: the size is not valid, the site allows none, or a node has less.
    """
    if leaves_out(request.sbatch, "mem"):
        return Reasoned(None, origin("sbatch.mem"))
    if site.memory.form == "none":
        if request.mem:
            raise RequestError(f"{site.name} allows no memory request", "Leave --mem out.")
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} request no memory"))
    if site.memory.form == "optional" and not request.mem:
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} need not request memory"))
    if request.mem:
        total, why = _size(request.mem), origin("mem")
    elif not layout.gpus:
        per_cpu = _memory_per_cpu(node)
        total = sizes.megabytes(per_cpu) * cpus
        source = derived("a CPU's share of a node") if node.cpus and node.memory else default(_NO_FACT)
        why = source.within(f"{per_cpu} per CPU ({{}}) x {cpus}")
    else:
        per_gpu, source = _first(
            (node.memory_per_gpu, from_profile(site, "node.memory_per_gpu")),
            (site.memory.per_gpu, from_profile(site, "memory.per_gpu")),
            (_memory_share(node), derived("a GPU's share of a node")),
            (DEFAULT_MEM_PER_GPU, default(_NO_FACT)),
        )
        total = sizes.megabytes(per_gpu) * layout.gpus_per_node
        why = source.within(f"{per_gpu} per GPU ({{}}) x {layout.gpus_per_node} per node")
    if node.memory and total > sizes.megabytes(node.memory):
        raise RequestError(
            f"the job needs {sizes.canonical(total)} per node, but a node of {site.name} has {node.memory}",
            f"Ask for at most --mem {node.memory}.",
        )
    return Reasoned(sizes.canonical(total) if total else "0", why)


def _share(total: int | None, gpus: int | None, multiple: int) -> int | None:
    """A GPU's share of a node, rounded down to a multiple; None if it is unknown or zero."""
    return (total // gpus // multiple * multiple or None) if total and gpus else None


def _memory_per_cpu(node: Node) -> str:
    """A CPU's share of a node, in whole megabytes."""
    if not (node.cpus and node.memory):
        return DEFAULT_MEM_PER_CPU
    return sizes.canonical(sizes.megabytes(node.memory) // node.cpus)


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


def time(request: Request, origin: Origin, site: Site, limits: dict[str, Limits], nodes: int) -> Reasoned:
    """The time limit of a job on `nodes` nodes; `limits` are those of the job, by what sets them.

    Raises:
        RequestError: it is not a valid time, or exceeds a limit.
    """
    text, why = _first(
        (request.time, origin("time")),
        (site.time if durations.limit(site.time) else None, from_profile(site, "time")),
        (DEFAULT_TIME, default("slurmgen's default, because neither the request nor the profile sets one")),
    )
    total = _duration(text)
    for name, limit in limits.items():
        if (most := limit.seconds_for(nodes)) is not None and total > most:
            longest, exact = limit.time_for(nodes), durations.canonical(total)
            written = text if text == exact else f"{text} is {exact}"
            if request.time:
                raise RequestError(
                    f"--time {written}, but {name} allows {longest}",
                    f"Ask for at most --time {longest}.",
                )
            total, why = most, Reason(PROFILE, f"the limit of {name}")
    total, why = _at_least(request, limits, total, why)
    return Reasoned(durations.canonical(total), why)


def _at_least(request: Request, limits: dict[str, Limits], total: int, why: Reason) -> tuple[int, Reason]:
    """The time limit, raised to the shortest that the site allows.

    Raises:
        RequestError: the request names a shorter one.
    """
    for name, limit in limits.items():
        least = durations.limit(limit.min_time)
        if least is not None and total < least:
            if request.time:
                raise RequestError(
                    f"--time {request.time} is shorter than {name} allows: {limit.min_time}",
                    f"Ask for at least --time {limit.min_time}.",
                )
            total, why = least, Reason(PROFILE, f"the shortest time limit of {name}")
    return total, why


def _duration(text: str) -> int:
    form = "Write HH:MM:SS or D-HH:MM:SS, such as 04:00:00."
    try:
        total = durations.seconds(text)
    except ValueError:
        raise RequestError(f"--time {text!r} is not a Slurm time", form) from None
    if not total:
        raise RequestError(f"--time {text} is zero", form)
    if total > MOST_DAYS * 86_400:
        raise RequestError(f"--time {text} is longer than a year", form)
    return total


def _first(*choices: tuple[T | None, Reason]) -> tuple[T, Reason]:
    """The first choice that has a value, with its reason."""
    for value, why in choices:
        if value is not None:
            return value, why
    raise ValueError(choices)
