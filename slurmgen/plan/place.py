"""Where on a site a job goes: partition, quality of service, kind of node, and their limits."""

import re

from msgspec import Struct

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.request import Request
from slurmgen.site import Limits, Node, Site

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+,-]*")


class Place(Struct, frozen=True, gc=False):
    """A kind of node on a site, and the limits that hold there."""

    partition: str | None
    node: Node
    node_name: str
    limits: dict[str, Limits]
    "By what sets them, such as `partition accel`."
    account: str | None


def find_place(request: Request, site: Site) -> Place:
    """Where the job goes.

    Raises:
        RequestError: the partition or GPU type is unknown, or the site needs an account or a type.
    """
    for key in ("account", "partition", "qos", "gpu_type"):
        if (word := getattr(request, key)) is not None:
            _check_word(key, word)
    if site.account.required and not request.account:
        hint = f" {site.account.hint}" if site.account.hint else ""
        raise RequestError(f"{site.name} needs an account", f"Add --account NAME.{hint}")
    partition = _partition(request, site)
    node, node_name = _node(request, site, partition)
    limits: dict[str, Limits] = {}
    if partition in site.partitions:
        limits[f"partition {partition}"] = site.partitions[partition]
    if request.qos in site.qos:
        limits[f"qos {request.qos}"] = site.qos[request.qos]
    return Place(partition, node, node_name, limits, request.account)


def check_limits(place: Place, gpus: int, nodes: int) -> None:
    """Refuse more GPUs or nodes than one job may have there.

    Raises:
        RequestError: a limit is passed.
    """
    for name, limit in place.limits.items():
        if limit.max_gpus == 0:
            raise RequestError(f"{name} has no GPUs", "Choose a partition that has.")
        if limit.max_gpus is not None and gpus > limit.max_gpus:
            raise RequestError(
                f"{gpus} GPUs are more than {name} gives a job: {limit.max_gpus}",
                f"Ask for at most --gpus {limit.max_gpus}.",
            )
        if limit.max_nodes is not None and nodes > limit.max_nodes:
            raise RequestError(
                f"{nodes} nodes are more than {name} gives a job: {limit.max_nodes}",
                f"Ask for at most --nodes {limit.max_nodes}.",
            )


def _check_word(key: str, value: str) -> None:
    if not _WORD.fullmatch(value):
        raise RequestError(
            f"--{key.replace('_', '-')} {value!r} is not a Slurm name",
            "Letters, digits and _ . : @ + , - can stand in one.",
        )


def _partition(request: Request, site: Site) -> str | None:
    if request.partition is None:
        return site.default_partition
    if site.partitions:
        for name in request.partition.split(","):
            if name not in site.partitions:
                raise RequestError(
                    f"{site.name} has no partition {name!r}", did_you_mean(name, site.partitions)
                )
    return request.partition


def _node(request: Request, site: Site, partition: str | None) -> tuple[Node, str]:
    """The node's facts and its name in an error; the GPU type knows best, then the partition."""
    here = site.partitions[partition].node if partition in site.partitions else None
    base, name = site.node, site.name
    if here:
        base, name = _over(base, here), f"{site.name}'s partition {partition}"
    kind = request.gpu_type
    if kind is None:
        if site.gpu.type_required:
            raise RequestError(
                f"{site.name} needs a GPU type", f"Add --gpu-type, one of {', '.join(site.gpu.types)}."
            )
        return base, name
    if not site.gpu.types:
        return base, name
    if kind not in site.gpu.types:
        raise RequestError(f"{site.name} has no GPU type {kind!r}", did_you_mean(kind, site.gpu.types))
    found = site.gpu.types[kind]
    own = Node(gpus=found.gpus, cpus=found.cpus, memory=found.memory)
    return _over(base, own), f"{site.name} with {kind} GPUs"


def _over(base: Node, over: Node) -> Node:
    return Node(gpus=over.gpus or base.gpus, cpus=over.cpus or base.cpus, memory=over.memory or base.memory)
