"""The facts of a profile that a cluster reports, each with the command that reported it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from slurmgen.sites.discover.cluster import NAME, Fact, hardware, output, read
from slurmgen.sites.discover.hardware import node_facts, share_facts
from slurmgen.sites.discover.notes import notes, unknown
from slurmgen.sites.discover.partitions import partition_facts, qos_facts
from slurmgen.sites.discover.query import COMMANDS, CONFIG, LOGIN_NODE, Answer
from slurmgen.sites.discover.records import settings
from slurmgen.sites.facts import MOST
from slurmgen.slurm import durations, sizes

_ENGINES = ("pyxis", "edf", "apptainer", "singularity", "podman-hpc", "shifter", "charliecloud")
_PROGRAMS = {"ch-run": "charliecloud"}


class Discovery(NamedTuple):
    """What is known of a cluster, and what is not."""

    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    "All partitions, hidden and closed ones too."
    notes: tuple[Fact, ...] = ()
    "Values that a profile has no key for."
    qos: tuple[str, ...] = ()
    "All QoS; empty without accounting."
    failed: tuple[str, ...] = ()
    "The commands that failed."


def discover(replies: Mapping[str, Answer], host: str | None = None) -> Discovery:
    """The facts in the replies to `QUERY`; `host` is the login host, if it is another machine."""
    cluster = read(replies)
    found = hardware(cluster)
    facts = [
        *([Fact(("login", "host"), host.rpartition("@")[2], "the command line")] if host else []),
        *partition_facts(cluster, found),
        *node_facts(cluster, found),
        *share_facts(cluster, found),
        *qos_facts(cluster),
        *(Fact(("container", "engine"), name, LOGIN_NODE) for name in _engines(replies)[:1]),
    ]
    valid = {fact.keys: fact for fact in facts if _is_valid(fact)}
    return Discovery(
        facts=tuple(valid.values()),
        unknown=tuple(unknown(cluster, replies)),
        partitions=tuple(entry["PartitionName"] for entry in cluster.all_partitions),
        notes=tuple(notes(cluster, replies)),
        qos=tuple(cluster.qos),
        failed=tuple(command for command in COMMANDS if command not in replies or replies[command].status),
    )


def _is_valid(fact: Fact) -> bool:
    """Whether a profile accepts the value, which a login node may have made up."""
    if isinstance(fact.value, int):
        return 0 <= fact.value <= MOST and (fact.value > 0 or fact.keys[-1] == "max_gpus")
    read: Callable[[str], object] = _READERS.get(fact.keys[-1], str)
    try:
        read(fact.value)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[str], object]] = {
    "max_time": durations.limit,
    "memory": sizes.megabytes,
    "per_gpu": sizes.megabytes,
    "memory_per_gpu": sizes.megabytes,
}


def cluster_name(replies: Mapping[str, Answer]) -> str:
    """The name that Slurm gives the cluster, as a profile can have it."""
    name = settings(output(replies, CONFIG)).get("ClusterName", "")
    return name if NAME.fullmatch(name) else "cluster"


def _engines(replies: Mapping[str, Answer]) -> tuple[str, ...]:
    """The container engines of the login node, the preferred one first."""
    words = [line.removeprefix("engine ") for line in output(replies, LOGIN_NODE).splitlines()]
    found = {_PROGRAMS.get(word, word) for word in words}
    return tuple(name for name in _ENGINES if name in found)
