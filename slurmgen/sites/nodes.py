"""The node and the limits of a job, for the plan, the linter and the twin alike.

A fact of the GPU type takes precedence over one of the partition's node, and that over the site's node.
"""

from collections.abc import Sequence

from msgspec import Struct

from slurmgen.sites.model import Limits, Node, Site
from slurmgen.slurm import sizes


class Place(Struct, frozen=True):
    """A kind of node on a site, and the limits that hold there."""

    partitions: tuple[str, ...]
    gpu_type: str | None
    node: Node
    node_name: str
    "The node's name in a message."
    limits: dict[str, Limits]
    "By their source, such as `partition accel`."


def place_of(
    site: Site, partition: str | None = None, gpu_type: str | None = None, qos: str | None = None
) -> Place:
    """The place of a job, which must fit each of its partitions. Facts that the profile lacks are unset.

    Args:
        site: the cluster.
        partition: as in --partition, of which several may be named; the site's default if None.
        gpu_type: the GPU type; the only one if None and the site requires one.
        qos: the quality of service.
    """
    names = partitions_of(site, partition)
    kind = gpu_type or only_type(site)
    nodes = [_node(site, name, kind) for name in names] or [_node(site, None, kind)]
    node = _smallest(nodes)
    smallest = next((name for name, one in zip(names, nodes, strict=False) if one.gpus == node.gpus), None)
    return Place(names, kind, node, _name(site, smallest, kind), _limits(site, names, qos))


def partitions_of(site: Site, partition: str | None) -> tuple[str, ...]:
    """The named partitions, or else the site's default."""
    partition = partition or site.default_partition
    return tuple(name.strip() for name in partition.split(",")) if partition else ()


def only_type(site: Site) -> str | None:
    """The only GPU type of a site that requires one; None if there are others."""
    types = list(site.gpu.types)
    return types[0] if site.gpu.type_required and len(types) == 1 else None


def gpu_partitions(site: Site) -> tuple[str, ...]:
    """The partitions that have GPUs, as far as the profile says."""
    return tuple(name for name, partition in site.partitions.items() if partition.has_gpus)


def over(base: Node, own: Node) -> Node:
    """The node `base` with the facts in which `own` differs."""
    return Node(gpus=own.gpus or base.gpus, cpus=own.cpus or base.cpus, memory=own.memory or base.memory)


def _node(site: Site, partition: str | None, gpu_type: str | None) -> Node:
    own = site.partitions[partition].node if partition in site.partitions else None
    node = over(site.node, own) if own else site.node
    kind = site.gpu.types.get(gpu_type or "")
    if kind and kind.gpus and node.gpus and kind.gpus != node.gpus:
        node = Node()  # another machine: its CPUs and memory are those of the type, or unknown
    return over(node, kind) if kind else node


def _smallest(nodes: Sequence[Node]) -> Node:
    """The least of each fact of some nodes, as far as it is known."""
    return Node(
        gpus=min((node.gpus for node in nodes if node.gpus), default=None),
        cpus=min((node.cpus for node in nodes if node.cpus), default=None),
        memory=min((node.memory for node in nodes if node.memory), key=sizes.megabytes, default=None),
    )


def _limits(site: Site, partitions: Sequence[str], qos: str | None) -> dict[str, Limits]:
    found: dict[str, Limits] = {
        f"partition {name}": site.partitions[name] for name in partitions if name in site.partitions
    }
    return found | ({f"qos {qos}": site.qos[qos]} if qos in site.qos else {})


def _name(site: Site, partition: str | None, gpu_type: str | None) -> str:
    if gpu_type in site.gpu.types:
        return f"{site.name} with {gpu_type} GPUs"
    has_own = partition in site.partitions and site.partitions[partition].node
    return f"{site.name}'s partition {partition}" if has_own else site.name
