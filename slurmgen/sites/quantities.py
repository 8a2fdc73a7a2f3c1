"""Checks of the times, sizes and counts of a profile."""

from collections.abc import Callable, Iterator
from typing import Any

from slurmgen.sites.fault import Fault
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.sites.nodes import Place, gpu_partitions, place_of
from slurmgen.slurm import durations, sizes


def unreadable(site: Site) -> Iterator[Fault]:
    """Times and sizes that are not valid."""
    for keys, text in _times(site):
        yield from _unless(durations.limit, keys, text, "a Slurm time", "1-12:00:00 or UNLIMITED")
    for keys, text in _sizes(site):
        yield from _unless(sizes.megabytes, keys, text, "a size", "64G")


def _unless(
    read: Callable[[str], Any], keys: tuple[str, ...], text: str | None, what: str, example: str
) -> Iterator[Fault]:
    try:
        read(text) if text is not None else None
    except ValueError:
        yield Fault(keys, f"{text!r} is not {what}", f"Write one such as {example}.")


def _times(site: Site) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield ("time",), site.time
    for keys, limits in _limits(site):
        yield (*keys, "max_time"), limits.max_time
        yield (*keys, "min_time"), limits.min_time
        yield from (((*keys, "max_time_by_nodes"), limit.time) for limit in limits.max_time_by_nodes)


def _limits(site: Site) -> Iterator[tuple[tuple[str, ...], Limits]]:
    yield ("limits",), site.limits
    yield from ((("partitions", name), partition) for name, partition in site.partitions.items())
    yield from ((("qos", name), qos) for name, qos in site.qos.items())


def _sizes(site: Site) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield ("memory", "per_gpu"), site.memory.per_gpu
    yield from _node_sizes(("node",), site.node)
    yield from _node_sizes(("cpu_node",), site.cpu_node)
    for name, kind in site.gpu.types.items():
        yield from _node_sizes(("gpu", "types", name), kind)
    for name, partition in site.partitions.items():
        yield from _node_sizes(("partitions", name, "node"), partition.node or Node())


def _node_sizes(keys: tuple[str, ...], node: Node) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield (*keys, "memory"), node.memory
    yield (*keys, "memory_per_gpu"), node.memory_per_gpu


def excessive(site: Site) -> Iterator[Fault]:
    """Counts and times that exceed another fact, of a site whose times and sizes are valid."""
    yield from _ranges(site)
    yield from _shares(site)
    yield from _default_time(site)


def _ranges(site: Site) -> Iterator[Fault]:
    """Limits that no job can meet."""
    for keys, limits in _limits(site):
        least, most = durations.limit(limits.min_time), durations.limit(limits.max_time)
        pairs = {"min_time": (least, most), "min_gpus": (limits.min_gpus, limits.max_gpus)}
        pairs["min_nodes"] = (limits.min_nodes, limits.max_nodes)
        for name, (low, high) in pairs.items():
            if low is not None and high is not None and low > high:
                yield Fault((*keys, name), "it is above the maximum", "Correct one of them.")
        nodes = [limit.nodes for limit in limits.max_time_by_nodes]
        if nodes != sorted(nodes):
            yield Fault(
                (*keys, "max_time_by_nodes"), "the nodes do not increase", "Sort the entries by nodes."
            )


def _shares(site: Site) -> Iterator[Fault]:
    """CPUs and memory per GPU, times the GPUs of a node, that exceed those of the node."""
    for name, node in {place.node_name: place.node for place in _places(site)}.items():
        cpus = node.cpus_per_gpu or site.cpu.per_gpu
        memory = node.memory_per_gpu or site.memory.per_gpu
        if cpus and node.gpus and node.cpus and cpus * node.gpus > node.cpus:
            yield _too_much("cpu", f"{cpus} CPUs", node.gpus, f"{cpus * node.gpus}", name, f"{node.cpus}")
        if memory and node.gpus and node.memory:
            total = sizes.megabytes(memory) * node.gpus
            if total > sizes.megabytes(node.memory):
                yield _too_much("memory", memory, node.gpus, sizes.canonical(total), name, node.memory)


def _too_much(table: str, each: str, gpus: int, total: str, name: str, has: str) -> Fault:
    fact = f"{each} for each of {gpus} GPUs are {total}, but a node of {name} has {has}"
    return Fault((table, "per_gpu"), fact, "Lower it, or correct what that node has.")


def _places(site: Site) -> Iterator[Place]:
    """The nodes of each partition with GPUs, and of each GPU type."""
    yield place_of(site)
    for name in gpu_partitions(site):
        yield place_of(site, name)
    for kind in site.gpu.types:
        yield place_of(site, gpu_type=kind)


def _default_time(site: Site) -> Iterator[Fault]:
    """A default time that exceeds the limit of the default partition."""
    name = site.default_partition
    most = site.partitions[name].seconds_for(1) if name else None
    seconds = durations.limit(site.time)
    if seconds is not None and most is not None and seconds > most:
        limit = site.partitions[name or ""].time_for(1)
        fact = f"{site.time} is longer than the default partition {name} allows: {limit}"
        yield Fault(("time",), fact, f"Write at most {limit}.")
