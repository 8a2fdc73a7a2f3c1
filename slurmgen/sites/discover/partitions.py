"""Facts of partitions and QoS."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurmgen.sites.discover.cluster import NAME, Cluster, Entry, Fact, Hardware
from slurmgen.sites.discover.hardware import Shares, fit, own_shares, shape, shares, site_shares
from slurmgen.sites.discover.nodes import Kind, usual
from slurmgen.sites.discover.query import NODES, PARTITIONS, QOS
from slurmgen.sites.discover.records import known, least, least_of, number
from slurmgen.slurm import durations

_JOB_LIMITS = ("MaxTRES", "MaxTRESPerUser", "GrpTRES")
"A job above any of these never starts."


def partition_facts(cluster: Cluster, found: Hardware) -> Iterator[Fact]:
    """The limits and the nodes of each open partition."""
    usual_shares = site_shares(cluster, found)
    for entry in cluster.partitions:
        name = entry["PartitionName"]
        facts = [
            *_limits(cluster, entry),
            *_nodes(cluster, entry, found, usual_shares),
        ]
        yield from facts or [Fact(("partitions", name), {}, PARTITIONS)]


def _limits(cluster: Cluster, entry: Entry) -> Iterator[Fact]:
    """The limits of a partition, which are also those of its own QoS: the stricter one holds."""
    own = _partition_limits(cluster, entry)
    of_qos = _job_limits(cluster.qos.get(entry.get("QoS", ""), {}))
    for key in own:
        value = _stricter(key, own[key], of_qos.get(key))
        if value is not None:
            command = PARTITIONS if value == own[key] else QOS
            yield Fact(("partitions", entry["PartitionName"], key), value, command)


def _partition_limits(cluster: Cluster, entry: Entry) -> dict[str, Any]:
    is_linear = cluster.config.get("SelectType") == "select/linear"
    return {
        "default": entry.get("Default") == "YES" or None,
        "max_time": entry.get("MaxTime"),
        "max_gpus": None,
        "max_nodes": _positive(entry.get("MaxNodes")),
        "min_gpus": None,
        "min_nodes": _positive(entry.get("MinNodes"), above=1),
        "whole_nodes": entry.get("OverSubscribe") == "EXCLUSIVE" or is_linear or None,
    }


def _stricter(key: str, first: Any, second: Any) -> Any:
    """The limit that leaves less room; None if neither is known."""
    if key == "max_time":
        return _shortest(first, second)
    known_limits = [value for value in (first, second) if value is not None]
    return (max if key.startswith("min_") else min)(known_limits, default=None)


def _shortest(*limits: str | None) -> str | None:
    """The shortest of the time limits, as Slurm writes it; what is not a limit is ignored."""
    readable = [text for text in limits if text and _seconds(text) is not None]
    return min(readable, key=lambda text: _seconds(text) or 0, default=None)


def _seconds(text: str) -> float | None:
    try:
        seconds = durations.limit(text)
    except ValueError:
        return None
    return float("inf") if seconds is None else seconds


def _nodes(cluster: Cluster, entry: Entry, found: Hardware, usual_shares: Shares) -> Iterator[Fact]:
    """The GPUs of a partition, and its nodes and shares where they differ from the usual ones."""
    name = entry["PartitionName"]
    counts = found.by_partition.get(name, Counter())
    kind = usual([counts])
    if kind is None or found.base is None:
        if cluster.groups:
            yield Fact(("partitions", name, "max_gpus"), 0, NODES)
        return
    types = {other.gpu_type for other in counts if other.gpus}
    if len(types) == 1 and NAME.fullmatch(kind.gpu_type):
        yield Fact(("partitions", name, "gpu_type"), kind.gpu_type, NODES)
    kind = _allowed(kind, entry)
    if kind.shape != found.base.shape:
        yield from shape(("partitions", name, "node"), kind)
    own = fit(shares(entry, cluster.config), kind)
    yield from own_shares(("partitions", name, "node"), own, usual_shares, PARTITIONS)


def _allowed(kind: Kind, entry: Entry) -> Kind:
    """What of a node the jobs of a partition may use."""
    cpus = least(kind.cpus, _positive(entry.get("MaxCPUsPerNode")))
    memory = least(kind.memory, _positive(entry.get("MaxMemPerNode")))
    return kind._replace(cpus=cpus or kind.cpus, memory=memory or kind.memory)


def qos_facts(cluster: Cluster) -> Iterator[Fact]:
    """The QoS that the user's associations allow, with their limits."""
    allowed = {name for association in cluster.associations for name in association.qos}
    preferred = {association.default_qos for association in cluster.associations} - {""}
    for name, row in cluster.qos.items():
        if name in allowed:
            values = {"default": preferred == {name} or None, **_qos_limits(row)}
            facts = [*_facts(("qos", name), values, QOS)]
            yield from facts or [Fact(("qos", name), {}, QOS)]


def _qos_limits(row: Entry) -> dict[str, Any]:
    return {
        **_job_limits(row),
        "max_jobs": number(row.get("MaxSubmitJobsPerUser")),
        "replaces_partition_limits": "OverPartQOS" in row.get("Flags", "") or None,
    }


def _job_limits(row: Entry) -> dict[str, Any]:
    """The limits of a QoS on each job."""
    most, fewest = [row.get(key, "") for key in _JOB_LIMITS], [row.get("MinTRES", "")]
    return {
        "max_time": known(row.get("MaxWall")),
        "max_gpus": least_of("gres/gpu", most),
        "max_nodes": least_of("node", most),
        "min_gpus": least_of("gres/gpu", fewest),
        "min_nodes": least_of("node", fewest),
    }


def _facts(keys: tuple[str, ...], values: Mapping[str, Any], command: str) -> Iterator[Fact]:
    yield from (Fact((*keys, key), value, command) for key, value in values.items() if value is not None)


def closed_to(entries: Iterable[Entry], accounts: set[str]) -> Iterator[str]:
    """The partitions that allow none of these accounts."""
    for entry in entries:
        allowed = known(entry.get("AllowAccounts")) or "ALL"
        denied = set((known(entry.get("DenyAccounts")) or "").split(","))
        if accounts and (accounts <= denied or (allowed != "ALL" and not accounts & set(allowed.split(",")))):
            yield entry["PartitionName"]


def _positive(text: str | None, above: int = 0) -> int | None:
    value = number(text)
    return value if value is not None and value > above else None
