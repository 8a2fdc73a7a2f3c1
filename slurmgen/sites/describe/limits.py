"""The limits of jobs, partitions and QoS."""

from collections.abc import Iterator

from slurmgen.sites.describe.model import Row, Section, codes
from slurmgen.sites.model import Limits, Partition, Qos, Site
from slurmgen.sites.nodes import cpu_partitions

_HEAD = ("", "time", "nodes", "GPUs", "of a user", "remarks")


def limits(site: Site) -> Iterator[Section]:
    """What one job may request, and the partition that it gets."""
    named: dict[str, tuple[str, Limits]] = {}
    if site.limits != Limits():
        named["limits"] = ("every job", site.limits)
    named |= {f"partitions.{name}": (f"partition `{name}`", part) for name, part in site.partitions.items()}
    named |= {f"qos.{name}": (f"QoS `{name}`", qos) for name, qos in site.qos.items()}
    rows = tuple(Row(key, (name, *_cells(each))) for key, (name, each) in named.items())
    yield Section("Limits of a job", _HEAD, rows, tuple(_remarks(site)))


def _cells(limits: Limits) -> tuple[str, ...]:
    return (
        _times(limits),
        _range(limits.min_nodes, limits.max_nodes),
        _range(limits.min_gpus, limits.max_gpus),
        _of_user(limits),
        ", ".join(_kind(limits)),
    )


def _times(limits: Limits) -> str:
    parts = [f"from {limits.min_time}"] if limits.min_time else []
    parts += [f"{limit.time} to {limit.nodes} nodes" for limit in limits.max_time_by_nodes]
    return ", ".join([*parts, *([limits.max_time] if limits.max_time else [])])


def _of_user(limits: Limits) -> str:
    counts = (
        (limits.max_jobs, "jobs"),
        (limits.max_running_jobs, "running"),
        (limits.max_nodes_per_user, "nodes"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count is not None)


def _range(least: int | None, most: int | None) -> str:
    if most == 0:
        return "none"
    if most is None:
        return f"from {least}" if least else ""
    return f"from {least} to {most}" if least else f"up to {most}"


def _kind(limits: Limits) -> Iterator[str]:
    """What distinguishes a partition or a QoS besides its limits."""
    if isinstance(limits, Partition):
        if limits.gpu_type:
            yield f"GPU type `{limits.gpu_type}`"
        if limits.whole_nodes:
            yield "whole nodes"
    if isinstance(limits, Qos):
        if limits.partitions:
            yield f"in {codes(limits.partitions)}"
        if limits.replaces_partition_limits:
            yield "replaces the limits of the partition"
    if isinstance(limits, Partition | Qos) and limits.preemptible:
        yield "preemptible"


def _remarks(site: Site) -> Iterator[str]:
    if site.default_partitions:
        yield f"A job that names no partition gets {_first(site.default_partitions)}."
    if without_gpus := cpu_partitions(site):
        yield f"A job without GPUs that names no partition gets {_first(without_gpus)}."
    if site.default_qos:
        yield f"A job that names no QoS gets {_first(site.default_qos)}."
    elif site.qos_required:
        yield "Every job must name a QoS."


def _first(names: tuple[str, ...]) -> str:
    return codes(names) if len(names) == 1 else f"the first of {codes(names)} whose limits allow it"
