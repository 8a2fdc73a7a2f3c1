"""The facts of a profile that a cluster reports, each with the command that reported it."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slurmgen.sites.discover.nodes import Kind, kinds, usual
from slurmgen.sites.discover.query import (
    ASSOCIATIONS,
    CONFIG,
    LOGIN_NODE,
    NODES,
    PARTITIONS,
    QOS,
    Answer,
)
from slurmgen.sites.discover.records import known, number, records, settings, tres
from slurmgen.sites.facts import MOST
from slurmgen.slurm import durations, sizes

Keys = tuple[str, ...]
_ENGINES = ("pyxis", "edf", "apptainer", "singularity", "podman-hpc", "shifter", "charliecloud")
_PROGRAMS = {"ch-run": "charliecloud"}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PARTITION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")
_ARCHITECTURES = {"x86_64", "aarch64"}


class Fact(NamedTuple):
    """A value of the profile and the command that reported it."""

    keys: Keys
    value: Any
    command: str


class Discovery(NamedTuple):
    """What is known of a cluster, and what is not."""

    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    "All partitions, hidden and closed ones too."


def discover(replies: Mapping[str, Answer], host: str | None = None) -> Discovery:
    """The facts in the replies to `QUERY`; `host` is the login host, if it is another machine."""
    config = settings(_output(replies, CONFIG))
    nodes = list(records(_output(replies, NODES)))
    by_partition = kinds(nodes)
    entries = {entry.get("PartitionName", ""): entry for entry in records(_output(replies, PARTITIONS))}
    every = [entry for name, entry in entries.items() if _PARTITION_NAME.fullmatch(name)]
    partitions = [entry for entry in every if entry.get("State", "UP") == "UP"]
    facts = [
        *([Fact(("login", "host"), host.rpartition("@")[2], "the command line")] if host else []),
        *_partitions(partitions, by_partition),
        *_nodes(partitions, by_partition),
        *_shares(partitions, by_partition, config),
        *_qos(replies),
        *_engine(replies),
    ]
    return Discovery(
        facts=tuple(fact for fact in facts if _is_valid(fact)),
        unknown=tuple(_unknown(replies, config, partitions)),
        partitions=tuple(entry["PartitionName"] for entry in every),
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
}


def cluster_name(replies: Mapping[str, Answer]) -> str:
    """The name that Slurm gives the cluster, as a profile can have it."""
    name = settings(_output(replies, CONFIG)).get("ClusterName", "")
    return name if NAME.fullmatch(name) else "cluster"


def _output(replies: Mapping[str, Answer], command: str) -> str:
    reply = replies.get(command)
    return reply.output if reply and reply.succeeded else ""


def _partitions(
    partitions: Sequence[Mapping[str, str]], by_partition: Mapping[str, Counter[Kind]]
) -> Iterator[Fact]:
    base = _usual(partitions, by_partition)
    for entry in partitions:
        name = entry["PartitionName"]
        if entry.get("Hidden") == "YES" or not _PARTITION_NAME.fullmatch(name):
            continue
        values: dict[str, Any] = {
            "default": entry.get("Default") == "YES" or None,
            "max_time": known(entry.get("MaxTime")),
            "max_nodes": _number(entry.get("MaxNodes")),
            "min_nodes": _number(entry.get("MinNodes"), above=1),
            "whole_nodes": entry.get("OverSubscribe") == "EXCLUSIVE" or None,
        }
        for key, value in values.items():
            if value is not None:
                yield Fact(("partitions", name, key), value, PARTITIONS)
        yield from _partition_nodes(name, by_partition.get(name, Counter()), base)
        if not any(value is not None for value in values.values()):
            yield Fact(("partitions", name), {}, PARTITIONS)


def _partition_nodes(name: str, counts: Counter[Kind], base: Kind | None) -> Iterator[Fact]:
    """The GPUs of a partition, and its nodes where they differ from the usual ones."""
    kind = usual([counts])
    if kind is None:
        yield Fact(("partitions", name, "max_gpus"), 0, NODES)
        return
    types = {found.gpu_type for found in counts if found.gpus}
    if len(types) == 1 and NAME.fullmatch(kind.gpu_type):
        yield Fact(("partitions", name, "gpu_type"), kind.gpu_type, NODES)
    if base and (kind.gpus, kind.cpus, kind.memory) != (base.gpus, base.cpus, base.memory):
        yield from _shape(("partitions", name, "node"), kind)


def _usual(partitions: Sequence[Mapping[str, str]], by_partition: Mapping[str, Counter[Kind]]) -> Kind | None:
    """The commonest GPU node of the default partition, else of the whole cluster."""
    default = [entry["PartitionName"] for entry in partitions if entry.get("Default") == "YES"]
    return usual([by_partition.get(name, Counter()) for name in default]) or usual(
        list(by_partition.values())
    )


def _nodes(
    partitions: Sequence[Mapping[str, str]], by_partition: Mapping[str, Counter[Kind]]
) -> Iterator[Fact]:
    base = _usual(partitions, by_partition)
    if base is None:
        return
    yield from _shape(("node",), base)
    if base.architecture in _ARCHITECTURES:
        yield Fact(("architecture",), base.architecture, NODES)
    every: Counter[Kind] = Counter()
    for counts in by_partition.values():
        every.update(counts)
    for name in sorted({kind.gpu_type for kind in every if NAME.fullmatch(kind.gpu_type)}):
        of_type = Counter({found: count for found, count in every.items() if found.gpu_type == name})
        kind, shapes = usual([of_type]), {(found.gpus, found.cpus, found.memory) for found in of_type}
        if (
            kind
            and len(shapes) == 1
            and (kind.gpus, kind.cpus, kind.memory) != (base.gpus, base.cpus, base.memory)
        ):
            yield from _shape(("gpu", "types", name), kind)
        else:
            yield Fact(("gpu", "types", name), {}, NODES)


def _shape(keys: Keys, kind: Kind) -> Iterator[Fact]:
    yield Fact((*keys, "gpus"), kind.gpus, NODES)
    yield Fact((*keys, "cpus"), kind.cpus, NODES)
    yield Fact((*keys, "memory"), sizes.canonical(kind.memory), NODES)


def _shares(
    partitions: Sequence[Mapping[str, str]],
    by_partition: Mapping[str, Counter[Kind]],
    config: Mapping[str, str],
) -> Iterator[Fact]:
    """What belongs to a GPU by default, and the unit in which CPUs are allocated."""
    default = next((entry for entry in partitions if entry.get("Default") == "YES"), {})
    defaults = known(default.get("JobDefaults")) or known(config.get("JobDefaults")) or ""
    found = dict(pair.split("=", 1) for pair in defaults.split(",") if "=" in pair)
    if cpus := found.get("DefCpuPerGPU"):
        yield Fact(("cpu", "per_gpu"), number(cpus) or 0, PARTITIONS)
    if memory := found.get("DefMemPerGPU"):
        yield Fact(("memory", "per_gpu"), f"{memory}M", PARTITIONS)
    base = _usual(partitions, by_partition)
    by_core = "CR_Core" in config.get("SelectTypeParameters", "").replace("CR_CORE", "CR_Core")
    if base and base.threads_per_core > 1 and by_core:
        yield Fact(("cpu", "multiple_of"), base.threads_per_core, CONFIG)


def _qos(replies: Mapping[str, Answer]) -> Iterator[Fact]:
    """The QoS that the user's associations allow, with their limits."""
    rows = [line.split("|") for line in _output(replies, ASSOCIATIONS).splitlines()]
    allowed = {name for row in rows if len(row) > 1 for name in row[1].split(",") if name}
    preferred = {row[2] for row in rows if len(row) > 2 and row[2]}
    for line in _output(replies, QOS).splitlines():
        name, wall, most, least, flags, *_ = [*line.split("|"), "", "", "", "", ""]
        if name not in allowed or not NAME.fullmatch(name):
            continue
        values: dict[str, Any] = {
            "default": preferred == {name} or None,
            "max_time": known(wall),
            "max_gpus": tres(most).get("gres/gpu"),
            "max_nodes": tres(most).get("node"),
            "min_gpus": tres(least).get("gres/gpu"),
            "min_nodes": tres(least).get("node"),
            "replaces_partition_limits": "OverPartQOS" in flags or None,
        }
        stated = {key: value for key, value in values.items() if value is not None}
        yield from (Fact(("qos", name, key), value, QOS) for key, value in stated.items())
        if not stated:
            yield Fact(("qos", name), {}, QOS)


def _engine(replies: Mapping[str, Answer]) -> Iterator[Fact]:
    words = [line.removeprefix("engine ") for line in _output(replies, LOGIN_NODE).splitlines()]
    found = [_PROGRAMS.get(word, word) for word in words]
    if engine := next((name for name in _ENGINES if name in found), None):
        yield Fact(("container", "engine"), engine, LOGIN_NODE)


def _unknown(
    replies: Mapping[str, Answer], config: Mapping[str, str], partitions: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """What a reader of the profile must find out elsewhere."""
    for command in (CONFIG, PARTITIONS, NODES, ASSOCIATIONS, QOS):
        reply = replies.get(command)
        if reply is None or not reply.succeeded:
            last = reply.output.strip().splitlines()[-1:] if reply else []
            yield f"{_ABOUT[command]} (`{' '.join(command.split()[:1])}`: {last[0] if last else 'no output'})"
    if plugins := known(config.get("JobSubmitPlugins")):
        yield f"what the job_submit plugin ({plugins}) changes or refuses"
    if any(entry.get("Hidden") == "YES" for entry in partitions):
        yield "hidden partitions: " + ", ".join(
            entry["PartitionName"] for entry in partitions if entry.get("Hidden") == "YES"
        )
    yield "whether jobs must name an account, and how users find theirs"
    yield "how GPUs must be requested: --gres is assumed"
    yield "modules, and the variables that NCCL needs on this network"
    yield "whether compute nodes reach the internet"


_ABOUT = {
    CONFIG: "the configuration",
    PARTITIONS: "partitions",
    NODES: "nodes",
    ASSOCIATIONS: "accounts",
    QOS: "QoS and their limits",
}


def _number(text: str | None, above: int = 0) -> int | None:
    value = number(text)
    return value if value is not None and value > above else None
