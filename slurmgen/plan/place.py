"""Where on a site a job goes: partition, quality of service, kind of node, and their limits."""

import re
from functools import lru_cache

from msgspec import Struct

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.request import Request
from slurmgen.site import Limits, Node, Partition, Site

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")


class Place(Struct, frozen=True, gc=False):
    """A kind of node on a site, and the limits that hold there."""

    partition: str | None
    node: Node
    node_name: str
    limits: dict[str, Limits]
    "By what sets them, such as `partition accel`."
    account: str | None


def find_place(request: Request, site: Site) -> Place:
    """Where the job goes; of several partitions, `a,b`, the limits of all hold.

    Raises:
        RequestError: the partition or GPU type is unknown, or the site needs an account or a type.
    """
    partition = request.partition or site.default_partition
    names = partition.split(",") if partition else []
    _check_words(request, names)
    if site.account.required and not request.account:
        hint = f" {site.account.hint}" if site.account.hint else ""
        raise RequestError(f"{site.name} needs an account", f"Add --account NAME.{hint}")
    limits: dict[str, Limits] = {f"partition {name}": _partition(name, site) for name in names}
    if request.qos in site.qos:
        limits[f"qos {request.qos}"] = site.qos[request.qos]
    node, node_name = _node(request.gpu_type, site, names)
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


def roomier(site: Site, node: Node) -> tuple[str, ...]:
    """GPU types whose nodes have more GPUs than this one."""
    least = node.gpus or 0
    return tuple(name for name, kind in site.gpu.types.items() if least and (kind.gpus or 0) > least)


def _check_words(request: Request, partitions: list[str]) -> None:
    named = (("account", request.account), ("qos", request.qos), ("gpu-type", request.gpu_type))
    for key, word in (*[("partition", name) for name in partitions], *named):
        if word is not None and not _is_word(word):
            raise RequestError(
                f"--{key} {word!r} is not a Slurm name", "Letters, digits and _ . @ + - can stand in one."
            )


@lru_cache(maxsize=1024)
def _is_word(word: str) -> bool:
    return _WORD.fullmatch(word) is not None


def _partition(name: str, site: Site) -> Partition:
    if site.partitions and name not in site.partitions:
        raise RequestError(f"{site.name} has no partition {name!r}", did_you_mean(name, site.partitions))
    return site.partitions.get(name) or Partition()


def _node(kind: str | None, site: Site, partitions: list[str]) -> tuple[Node, str]:
    """The node's facts and its name in an error; the GPU type knows best, then the smallest partition."""
    if kind is not None:
        return _node_of_type(kind, site)
    if site.gpu.type_required:
        known = f", one of {', '.join(site.gpu.types)}" if site.gpu.types else ""
        raise RequestError(f"{site.name} needs a GPU type", f"Add --gpu-type{known}.")
    node, node_name = site.node, site.name
    for name in partitions:
        own = site.partitions[name].node if name in site.partitions else None
        if own and (node is site.node or (own.gpus or 0) < (node.gpus or 0)):
            node, node_name = _over(site.node, own), f"{site.name}'s partition {name}"
    return node, node_name


def _node_of_type(kind: str, site: Site) -> tuple[Node, str]:
    """What is known of the nodes with that GPU type; the usual node says nothing of them."""
    if not site.gpu.types:
        return site.node, site.name
    if kind not in site.gpu.types:
        raise RequestError(f"{site.name} has no GPU type {kind!r}", did_you_mean(kind, site.gpu.types))
    found = site.gpu.types[kind]
    return Node(gpus=found.gpus, cpus=found.cpus, memory=found.memory), f"{site.name} with {kind} GPUs"


def _over(base: Node, over: Node) -> Node:
    return Node(gpus=over.gpus or base.gpus, cpus=over.cpus or base.cpus, memory=over.memory or base.memory)
