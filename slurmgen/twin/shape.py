"""The size of a twin's nodes: the site's facts, and stated defaults where it has none."""

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from slurmgen.errors import TwinError, did_you_mean
from slurmgen.site import Node, Partition, Site
from slurmgen.slurm.sizes import megabytes
from slurmgen.wording import counted

DEFAULT_NODE = Node(gpus=8, cpus=64, memory="512G")
DEFAULT_PARTITIONS = {"main": Partition(default=True)}


class Shape(Struct, frozen=True):
    """What Slurm is told that a node has; `memory` in MiB."""

    gpus: int
    cpus: int
    memory: int
    gpu_type: str | None = None

    def __str__(self) -> str:
        kind = f"{self.gpu_type} " if self.gpu_type else ""
        return f"{counted(self.cpus, 'CPU')}, {self.memory} MiB, {counted(self.gpus, f'{kind}GPU')}"


def partitions(site: Site) -> dict[str, Partition]:
    """The site's partitions; a site that names none gets `main`."""
    return site.partitions or DEFAULT_PARTITIONS


def shape(site: Site, partition: Partition, gpu_type: str | None = None) -> Shape:
    """One node of a partition; `gpu_type` picks that type's facts, else the site's usual node is meant.

    Raises:
        TwinError: the site has no such GPU type.
    """
    layers = [DEFAULT_NODE, site.node, partition.node or Node()]
    kind = gpu_type or usual_type(site, _over(*layers[1:]).gpus)
    if gpu_type:
        layers.append(_node_of(site, gpu_type))
    elif kind:
        layers.insert(1, _node_of(site, kind))  # knows less of this partition than its own facts do
    node = _over(*layers)
    gpus = 0 if partition.max_gpus == 0 else node.gpus or 0
    memory = megabytes(node.memory or "")
    return Shape(gpus=gpus, cpus=node.cpus or 1, memory=memory, gpu_type=kind if gpus else None)


def features(site: Site) -> tuple[str, ...]:
    """The node features that the site's directives ask for.

    >>> features(Site(name="x", sbatch={"constraint": "[rack1*2&rack2*4]|a100&(nvlink|ib)"}))
    ('rack1', 'rack2', 'a100', 'nvlink', 'ib')
    """
    asked = " ".join(site.sbatch.get(option, "") for option in ("constraint", "prefer", "batch"))
    # Behind an asterisk is a number of nodes.
    words = re.split(r"[^\w.+:/=@-]+", re.sub(r"\*\d+", " ", asked))
    return tuple(dict.fromkeys(filter(None, words)))


def usual_type(site: Site, gpus: int | None) -> str | None:
    """The GPU type of a node with that many GPUs, as nearly as the profile says."""
    fitting = (
        name for name, kind in site.gpu.types.items() if None in (gpus, kind.gpus) or kind.gpus == gpus
    )
    return next(fitting, None)


def assumptions(site: Site, gpu_type: str | None = None) -> Iterator[str]:
    """What the twin takes for granted because the profile does not say it, and what it leaves out."""
    if not site.partitions:
        yield "no partition is known; it has one, main"
    known = _over(site.node, _node_of(site, gpu_type) if gpu_type else Node())
    for fact, text in {"gpus": "GPUs per node", "cpus": "CPUs per node", "memory": "memory per node"}.items():
        if getattr(known, fact) is None:
            yield f"{text} unknown; took {getattr(DEFAULT_NODE, fact)} unless a partition says otherwise"
    if any(limits.max_gpus for limits in [*site.partitions.values(), *site.qos.values()]):
        yield "limits on a job's GPUs are not enforced: Slurm needs accounting for that"
    if site.qos:
        yield f"any --qos is accepted, {', '.join(site.qos)} or not: Slurm needs accounting to know them"
    if site.rendezvous.suffix:
        yield f"node names with the suffix {site.rendezvous.suffix!r} do not resolve here"


def _node_of(site: Site, gpu_type: str) -> Node:
    if gpu_type not in site.gpu.types:
        raise TwinError(f"{site.name} has no GPU type {gpu_type!r}", did_you_mean(gpu_type, site.gpu.types))
    kind = site.gpu.types[gpu_type]
    return Node(gpus=kind.gpus, cpus=kind.cpus, memory=kind.memory)


def _over(*layers: Node) -> Node:
    """The last layer that knows a fact wins."""
    facts = (structs.asdict(layer).items() for layer in layers)
    return Node(**{fact: value for layer in facts for fact, value in layer if value is not None})
