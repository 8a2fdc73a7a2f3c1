"""Facts of nodes, GPU types, and what belongs to a GPU by default."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from slurmgen.sites.discover.cluster import NAME, Cluster, Entry, Fact, Hardware, Keys
from slurmgen.sites.discover.nodes import Kind, architecture, usual
from slurmgen.sites.discover.query import CONFIG, NODES, PARTITIONS
from slurmgen.sites.discover.records import known, least, number
from slurmgen.slurm import sizes

_ARCHITECTURES = {"x86_64", "aarch64"}


class Shares(NamedTuple):
    """What belongs to each GPU."""

    cpus: int | None
    memory: int | None
    "In MiB."


def node_facts(cluster: Cluster, found: Hardware) -> Iterator[Fact]:
    """The usual GPU node, its architecture, and the GPU types."""
    if found.base is None:
        return
    yield from shape(("node",), found.base)
    name = architecture(cluster.groups, found.base)
    if name in _ARCHITECTURES:
        yield Fact(("architecture",), name, NODES)
    every: Counter[Kind] = Counter()
    for counts in found.by_partition.values():
        every.update(counts)
    for name in sorted({kind.gpu_type for kind in every if NAME.fullmatch(kind.gpu_type)}):
        of_type = [kind for kind in every if kind.gpu_type == name]
        yield from _type(name, of_type, found.base, site_shares(cluster, found))


def _type(name: str, of_type: list[Kind], base: Kind, usual_shares: Shares) -> Iterator[Fact]:
    """A GPU type, with its node if all its nodes differ from the usual one in the same way."""
    kind = usual([Counter(of_type)])
    if kind and len({other.shape for other in of_type}) == 1 and kind.shape != base.shape:
        yield from shape(("gpu", "types", name), kind)
        yield from own_shares(("gpu", "types", name), fit(usual_shares, kind), usual_shares, NODES)
    else:
        yield Fact(("gpu", "types", name), {}, NODES)


def shape(keys: Keys, kind: Kind) -> Iterator[Fact]:
    """The GPUs, CPUs and memory of a node."""
    yield Fact((*keys, "gpus"), kind.gpus, NODES)
    yield Fact((*keys, "cpus"), kind.cpus, NODES)
    yield Fact((*keys, "memory"), sizes.canonical(kind.memory), NODES)


def share_facts(cluster: Cluster, found: Hardware) -> Iterator[Fact]:
    """What belongs to a GPU by default, and the unit in which CPUs are allocated."""
    partition = _default_partition(cluster)
    command = PARTITIONS if known(partition.get("JobDefaults")) else CONFIG
    cpus, memory = site_shares(cluster, found)
    if cpus:
        yield Fact(("cpu", "per_gpu"), cpus, command)
    if memory:
        yield Fact(("memory", "per_gpu"), sizes.canonical(memory), command)
    by_core = "CR_CORE" in cluster.config.get("SelectTypeParameters", "").upper()
    if found.base and found.base.threads_per_core > 1 and by_core:
        yield Fact(("cpu", "multiple_of"), found.base.threads_per_core, CONFIG)


def site_shares(cluster: Cluster, found: Hardware) -> Shares:
    """What belongs to a GPU of the usual node: by the default partition, else by the configuration."""
    stated = shares(_default_partition(cluster), cluster.config)
    return fit(stated, found.base) if found.base else stated


def shares(partition: Entry, config: Entry) -> Shares:
    """What belongs to a GPU in a partition; its JobDefaults replace those of the configuration."""
    text = known(partition.get("JobDefaults")) or known(config.get("JobDefaults")) or ""
    pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    return Shares(number(pairs.get("DefCpuPerGPU")) or None, number(pairs.get("DefMemPerGPU")) or None)


def fit(stated: Shares, kind: Kind) -> Shares:
    """The shares with which a job may have all GPUs of a node: the default of Slurm may exceed them."""
    return Shares(
        stated.cpus and (least(stated.cpus, kind.cpus // kind.gpus) or None),
        stated.memory and (least(stated.memory, max(kind.memory, 0) // kind.gpus) or None),
    )


def own_shares(keys: Keys, own: Shares, usual_shares: Shares, command: str) -> Iterator[Fact]:
    """The shares of a node that differ from the usual ones."""
    if own.cpus and own.cpus != usual_shares.cpus:
        yield Fact((*keys, "cpus_per_gpu"), own.cpus, command)
    if own.memory and own.memory != usual_shares.memory:
        yield Fact((*keys, "memory_per_gpu"), sizes.canonical(own.memory), command)


def _default_partition(cluster: Cluster) -> Entry:
    return next((entry for entry in cluster.partitions if entry.get("Default") == "YES"), {})
