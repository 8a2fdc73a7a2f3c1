"""How large a job may be: the limits of a place, checked against the profile."""

from collections.abc import Iterator, Sequence
from math import inf

from slurmgen.errors import LimitExceeded, RequestError
from slurmgen.field_names import option
from slurmgen.hints import Hint, ask_for, offered
from slurmgen.launchers import Launcher
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.sites.nodes import Place, accepts, cpu_partitions, gpu_partitions, place_of
from slurmgen.slurm import durations, sizes
from slurmgen.text import counted


def partitions_for(site: Site, gpus: int) -> tuple[str, ...]:
    """The partitions that suit a job with or without GPUs."""
    return gpu_partitions(site) if gpus else cpu_partitions(site)


def has_room(place: Place, request: Request, gpus: int) -> bool:
    """Whether a place allows so many nodes and GPUs."""
    nodes = _nodes(place, request, gpus)
    return not any(one for limits in place.limits.values() for one in _excess(limits, gpus, nodes))


def most_nodes(place: Place) -> float:
    """The nodes that a job of a place may have."""
    return min((limits.max_nodes or inf for limits in place.limits.values()), default=inf)


def fits(place: Place, request: Request, gpus: int) -> bool:
    """Whether the limits of a place allow the job, and its nodes have the CPUs and the memory."""
    nodes, seconds = _nodes(place, request, gpus), _seconds(request)
    in_limits = all(_allows(limits, gpus, nodes, seconds) for limits in place.limits.values())
    return in_limits and _holds(place.node, request)


def _nodes(place: Place, request: Request, gpus: int) -> int:
    return request.nodes or -(-gpus // (place.node.gpus or gpus or 1)) or 1


def _holds(node: Node, request: Request) -> bool:
    """Whether a node has the CPUs and the memory that a request names, as far as it is known."""
    has_cpus = not (node.cpus and request.cpus) or request.cpus <= node.cpus
    return has_cpus and not (node.memory and _megabytes(request.mem) > sizes.megabytes(node.memory))


def _megabytes(text: str | None) -> int:
    """The memory of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return sizes.megabytes(text) if text else 0
    except ValueError:
        return 0


def _seconds(request: Request) -> int:
    """The time limit of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return durations.seconds(request.time) if request.time else 0
    except ValueError:
        return 0


def _excess(limits: Limits, gpus: int, nodes: int) -> Iterator[tuple[str, int, str, int]]:
    """Each number that a job must not have: option, number, what the limit is, and the limit."""
    for key, count, least, most in (
        ("gpus", gpus, limits.min_gpus, limits.max_gpus),
        ("nodes", nodes, limits.min_nodes, limits.max_nodes),
    ):
        if most is not None and count > most:
            yield key, count, "at most", most
        if least is not None and count < least:
            yield key, count, "at least", least


def check_limits(request: Request, site: Site, place: Place, gpus: int) -> None:
    """Refuse more or fewer GPUs or nodes than a job may have.

    Raises:
        LimitExceeded: the job is outside a limit.
        RequestError: the partition has no GPUs.
    """
    nodes = _nodes(place, request, gpus)
    for name, limit in place.limits.items():
        if gpus and not limit.has_gpus:
            names = gpu_partitions(site)
            text = f"Choose one with GPUs: {', '.join(names)}."
            raise RequestError(f"{name} has no GPUs", Hint(text, offered("partition", *names)))
        for key, count, bound, value in _excess(limit, gpus, nodes):
            fact = f"{_compared(key, count, bound)} the limit of {name}: {value} per job"
            others = [*_with_room(request, site, gpus, nodes)] if name.startswith("partition ") else []
            raise LimitExceeded(fact, _within(*_allowed(request, place, key, value), bound, others), key)


def _compared(key: str, count: int, bound: str) -> str:
    """Such as `40 GPUs exceed`."""
    one, several = ("exceeds", "exceed") if bound == "at most" else ("is below", "are below")
    return f"{counted(count, 'GPU' if key == 'gpus' else 'node')} {one if count == 1 else several}"


def _allowed(request: Request, place: Place, key: str, value: int) -> tuple[str, int]:
    """A limit in what the request names: its nodes follow from its GPUs, if it names only these."""
    per_node = place.node.gpus
    follow = key == "nodes" and request.nodes is None and request.gpus and per_node
    return ("gpus", value * per_node) if follow and per_node else (key, value)


def _within(field: str, value: int, bound: str, partitions: Sequence[str]) -> Hint:
    """The hint to stay within a limit, or to use a partition with another one."""
    if not partitions:
        return ask_for(field, value, bound=bound)
    other = f", or use {option('partition', ' or '.join(partitions))}."
    return Hint(
        f"Ask for {bound} {option(field, value)}{other}",
        (*offered(field, value), *offered("partition", *partitions)),
    )


def _with_room(request: Request, site: Site, gpus: int, nodes: int) -> Iterator[str]:
    """The partitions that accept the GPU type and QoS of the request, and whose limits allow that much."""
    for name in partitions_for(site, gpus):
        partition = site.partitions[name]
        has_type = not request.gpu_type or partition.gpu_type in (None, request.gpu_type)
        has_qos = not request.qos or accepts(site, request.qos, [name])
        holds = _holds(place_of(site, name, with_gpus=gpus > 0).node, request)
        if has_type and has_qos and holds and _allows(partition, gpus, nodes, _seconds(request)):
            yield name


def _allows(limits: Limits, gpus: int, nodes: int, seconds: int) -> bool:
    most, least = limits.seconds_for(nodes), durations.limit(limits.min_time)
    in_time = (most is None or seconds <= most) and (least is None or seconds == 0 or seconds >= least)
    return in_time and not any(_excess(limits, gpus, nodes))


def roomier(site: Site, node: Node) -> tuple[str, ...]:
    """GPU types whose nodes have more GPUs than this one."""
    least = node.gpus or 0
    return tuple(name for name, kind in site.gpu.types.items() if least and (kind.gpus or 0) > least)


def check_one_node(request: Request, site: Site, place: Place, launcher: Launcher, gpus: int) -> None:
    """Refuse more GPUs for one process than a node has.

    Raises:
        RequestError: the hint names the GPU types or partitions whose nodes have as many.
    """
    most = place.node.gpus or gpus
    if launcher.max_nodes != 1 or (request.nodes or 1) > 1 or gpus <= most:
        return
    larger = offered("gpu_type", *(name for name, kind in site.gpu.types.items() if (kind.gpus or 0) >= gpus))
    larger = larger or offered(
        "partition", *(name for name in gpu_partitions(site) if _holds_gpus(site, name, gpus))
    )
    others = (*larger[:3], *offered("framework", "ddp"))
    raise RequestError(
        f"{launcher.name} starts one process, and a node of {place.node_name} has {counted(most, 'GPU')}, "
        f"not {gpus}",
        Hint(
            f"Ask for at most {option('gpus', most)}, or use {' or '.join(option(*one) for one in others)}.",
            (*offered("gpus", most), *others),
        ),
    )


def _holds_gpus(site: Site, partition: str, gpus: int) -> bool:
    """Whether a node of a partition has so many GPUs."""
    return (place_of(site, partition).node.gpus or 0) >= gpus
