"""A site in one line of a list."""

from collections.abc import Iterator

from msgspec import Struct

from slurmgen.sites.model import Limits, Site
from slurmgen.slurm import durations


class Overview(Struct, frozen=True):
    """What users compare sites by; empty means that the profile does not say."""

    name: str
    title: str
    gpu_types: tuple[str, ...]
    gpus_per_node: tuple[int, ...]
    "In increasing order."
    engines: tuple[str, ...]
    "Container engines; the default one first."
    max_time: str
    "The longest time of a job with GPUs, as Slurm writes it."
    newest_source: str
    "The date of the newest source."


def overview(site: Site) -> Overview:
    """The line of a site."""
    container = site.container
    return Overview(
        name=site.name,
        title=site.title,
        gpu_types=tuple(_gpu_types(site)),
        gpus_per_node=tuple(sorted(set(_gpus_per_node(site)))),
        engines=(container.engine, *container.engines) if container else (),
        max_time=max(_times(site), key=longest_seconds, default=""),
        newest_source=max((source.date or "" for source in site.sources.values()), default=""),
    )


def _gpu_types(site: Site) -> Iterator[str]:
    if not site.gpu.types and site.gpu.vendor == "amd":
        yield "AMD"
    for name, kind in site.gpu.types.items():
        yield kind.label or name


def _gpus_per_node(site: Site) -> Iterator[int]:
    nodes = (site.node, *site.gpu.types.values(), *(part.node for part in site.partitions.values()))
    yield from (node.gpus for node in nodes if node and node.gpus)


def _times(site: Site) -> Iterator[str]:
    """The limits of the first kind that the profile states; a QoS may lengthen those of a partition."""
    over = [qos for qos in site.qos.values() if qos.replaces_partition_limits]
    partitions = [part for part in site.partitions.values() if part.has_gpus]
    kinds: list[list[Limits]] = [[*partitions, *over], [site.limits], [*site.qos.values()]]
    found = ([time for part in kind for time in _limits(part)] for kind in kinds)
    yield from next(filter(None, found), [])


def _limits(limits: Limits) -> Iterator[str]:
    yield from (limit.time for limit in limits.max_time_by_nodes)
    if limits.max_time:
        yield limits.max_time


def longest_seconds(time: str) -> float:
    """A time limit as a number to compare.

    >>> longest_seconds("1-00:00:00"), longest_seconds("UNLIMITED")
    (86400, inf)
    """
    seconds = durations.limit(time)
    return float("inf") if seconds is None else seconds
