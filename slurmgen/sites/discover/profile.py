"""A profile from what the commands of a cluster print."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slurmgen.sites.discover.query import (
    ASSOCIATIONS,
    COMMANDS,
    CONFIG,
    COUNT,
    ENGINES,
    LOGIN_NODE,
    NODES,
    PARTITIONS,
    QOS,
    QOS_FIELDS,
    Answer,
    Gres,
    gpus,
    known,
    least,
    least_of,
    number,
    records,
    settings,
)
from slurmgen.sites.model import MOST
from slurmgen.slurm import units
from slurmgen.text import counted, listed

_LEAST_MEMORY = 1024
"MiB; less is Slurm's default, RealMemory=1, for nodes without a configured memory."


_MARGIN = 1.01
"Nodes of one kind may differ by so much memory; the least of them counts."


class Kind(NamedTuple):
    """What Slurm can allocate of a node: the facts that a profile states."""

    gpu_type: str
    gpus: int
    cpus: int
    memory: int
    "In MiB."
    threads_per_core: int

    @property
    def is_slice(self) -> bool:
        """Whether its GPUs are parts of a GPU (MIG), such as a100_1g.5gb."""
        return re.search(r"\dg\.\d", self.gpu_type) is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Its GPUs, CPUs and memory."""
        return self.gpus, self.cpus, self.memory


class Group(NamedTuple):
    """Equal nodes."""

    kinds: tuple[Kind, ...]
    "One for each type of GPUs; one without GPUs if they have none."
    number: int
    partitions: tuple[str, ...]
    architecture: str
    features: tuple[str, ...]


def groups(nodes: Iterable[Mapping[str, str]]) -> list[Group]:
    """The nodes of `scontrol show node`, without those that do not exist yet (FUTURE)."""
    found = [_group(node) for node in nodes if "FUTURE" not in node.get("State", "")]
    least = _least_memory(kind for group in found for kind in group.kinds)
    return [
        group._replace(kinds=tuple(kind._replace(memory=least[kind]) for kind in group.kinds))
        for group in found
    ]


def kinds(found: Iterable[Group]) -> dict[str, Counter[Kind]]:
    """The kinds of nodes of each partition, with their numbers of nodes."""
    counts: dict[str, Counter[Kind]] = {}
    for group in found:
        for name in group.partitions:
            counts.setdefault(name, Counter()).update(dict.fromkeys(group.kinds, group.number))
    return counts


def usual(counts: Sequence[Counter[Kind]]) -> Kind | None:
    """The commonest kind with GPUs; of kinds as common, the larger."""
    total: Counter[Kind] = Counter()
    for count in counts:
        total.update(count)
    with_gpus = [kind for kind in total if kind.gpus]
    return max(with_gpus, key=lambda kind: (total[kind], not kind.is_slice, kind.gpus, kind), default=None)


def architecture(found: Iterable[Group], kind: Kind) -> str:
    """The commonest architecture of the nodes of a kind; a node that never started reports none."""
    counts: Counter[str] = Counter()
    for group in found:
        if kind in group.kinds and group.architecture:
            counts[group.architecture] += group.number
    return max(counts, key=lambda name: counts[name], default="")


def features(found: Iterable[Group], kind: Kind) -> tuple[str, ...]:
    """The features that all nodes of a kind have."""
    lists = [group.features for group in found if kind in group.kinds]
    return tuple(name for name in lists[0] if all(name in names for names in lists)) if lists else ()


def _group(node: Mapping[str, str]) -> Group:
    return Group(
        kinds=tuple(_kinds_of(node)),
        number=number(node.get(COUNT)) or 1,
        partitions=_names(node.get("Partitions")),
        architecture=node.get("Arch") or "",
        features=_names(node.get("AvailableFeatures")),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (known(text) or "").split(",")))


def _kinds_of(node: Mapping[str, str]) -> Iterator[Kind]:
    # CPUEfctv, since 22.05, leaves out the cores that are reserved for the system.
    cpus = number(node.get("CPUEfctv")) or number(node.get("CPUTot")) or 0
    memory = (number(node.get("RealMemory")) or 0) - (number(node.get("MemSpecLimit")) or 0)
    for gres in gpus(known(node.get("Gres"))) or (Gres("", 0),):
        yield Kind(
            gpu_type=gres.type,
            gpus=gres.number,
            cpus=cpus,
            memory=memory,
            threads_per_core=number(node.get("ThreadsPerCore")) or 1,
        )


def _least_memory(found: Iterable[Kind]) -> dict[Kind, int]:
    """The memory of each kind: the least of those that differ from it by a small margin only."""
    least: dict[Kind, int] = {}
    last: Kind | None = None
    for kind in sorted(set(found), key=lambda kind: (kind._replace(memory=0), kind.memory)):
        is_same = last and kind._replace(memory=last.memory) == last and kind.memory <= last.memory * _MARGIN
        last = last if is_same and last else kind
        least[kind] = last.memory
    return least


NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
PARTITION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}")
Keys = tuple[str, ...]
Entry = Mapping[str, str]


class Fact(NamedTuple):
    """A value, its keys in the profile, and the command that reported it."""

    keys: Keys
    value: Any
    command: str


class Cluster(NamedTuple):
    """The replies as records."""

    config: Entry
    all_partitions: tuple[Entry, ...]
    "Hidden and closed ones too."
    groups: tuple[Group, ...]
    by_partition: Mapping[str, Counter[Kind]]
    "The kinds of nodes of each partition."
    base: Kind | None
    "The commonest GPU node of the default partition, else of the whole cluster."
    associations: tuple[tuple[str, tuple[str, ...], str], ...]
    "The accounts that the user may charge, each with its QoS and its default QoS."
    qos: Mapping[str, Entry]
    "By name; those that the user may not use too, since they may limit a partition."

    @property
    def partitions(self) -> tuple[Entry, ...]:
        """The partitions that accept jobs and are shown to all users."""
        return tuple(
            entry
            for entry in self.all_partitions
            if entry.get("State", "UP") == "UP" and entry.get("Hidden") != "YES"
        )


def read(replies: Mapping[str, Answer]) -> Cluster:
    """The records in the replies to `QUERY`; a command that failed has none."""
    config = settings(output(replies, CONFIG))
    entries = {entry.get("PartitionName", ""): entry for entry in records(output(replies, PARTITIONS))}
    partitions = [entry for name, entry in entries.items() if PARTITION_NAME.fullmatch(name)]
    found = groups(records(output(replies, NODES)))
    by_partition = kinds(found)
    default = [entry["PartitionName"] for entry in partitions if entry.get("Default") == "YES"]
    base = usual([by_partition.get(name, Counter()) for name in default])
    return Cluster(
        config=config,
        all_partitions=tuple(partitions),
        groups=tuple(found),
        by_partition=by_partition,
        base=base or usual(list(by_partition.values())),
        associations=_associations(output(replies, ASSOCIATIONS), config.get("ClusterName", "")),
        qos=_qos(output(replies, QOS)),
    )


def output(replies: Mapping[str, Answer], command: str) -> str:
    """What a command printed; nothing if it failed."""
    reply = replies.get(command)
    return reply.output if reply and reply.succeeded else ""


def _associations(text: str, cluster: str) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """The rows of this cluster: one accounting database may serve several."""
    rows = [[*line.split("|"), "", "", ""] for line in text.splitlines() if "|" in line]
    return tuple(
        (row[0], tuple(filter(None, row[1].split(","))), row[2])
        for row in rows
        if not (row[3] and cluster) or row[3].lower() == cluster.lower()
    )


def _qos(text: str) -> dict[str, Entry]:
    rows = [dict(zip(QOS_FIELDS, line.split("|"), strict=False)) for line in text.splitlines()]
    return {row["Name"]: row for row in rows if NAME.fullmatch(row["Name"])}


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
    facts = [
        *([Fact(("login", "host"), host.rpartition("@")[2], "the command line")] if host else []),
        *_partition_facts(cluster),
        *_node_facts(cluster),
        *_share_facts(cluster),
        *_qos_facts(cluster),
        *(Fact(("container", "engine"), name, LOGIN_NODE) for name in _engines(replies)[:1]),
    ]
    facts += _complete(cluster, replies, facts)
    valid = {fact.keys: fact for fact in facts if _is_valid(fact)}
    return Discovery(
        facts=tuple(valid.values()),
        unknown=tuple(_unknown(cluster, replies)),
        partitions=tuple(entry["PartitionName"] for entry in cluster.all_partitions),
        notes=tuple(_notes(cluster, replies)),
        qos=tuple(cluster.qos),
        failed=tuple(command for command in COMMANDS if command not in replies or replies[command].status),
    )


def _complete(cluster: Cluster, replies: Mapping[str, Answer], facts: Iterable[Fact]) -> Iterator[Fact]:
    """The lists that have every name. Never the QoS: only those of one user are known."""
    listed = {fact.keys[1] for fact in facts if fact.keys[0] == "partitions"}
    partitions = {entry.get("PartitionName") for entry in records(output(replies, PARTITIONS))}
    types = {kind.gpu_type for group in cluster.groups for kind in group.kinds if kind.gpus}
    complete = ["partitions"] if listed and listed == partitions else []
    complete += ["gpu.types"] if types and all(map(NAME.fullmatch, types)) else []
    if complete:
        yield Fact(("complete",), complete, PARTITIONS if complete == ["partitions"] else NODES)


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
    "max_time": units.time_limit,
    **dict.fromkeys(("max_memory", "memory", "per_gpu", "memory_per_gpu"), units.megabytes),
}


def cluster_name(replies: Mapping[str, Answer]) -> str:
    """The name that Slurm gives the cluster, as a profile can have it."""
    name = settings(output(replies, CONFIG)).get("ClusterName", "")
    return name if NAME.fullmatch(name) else "cluster"


def _engines(replies: Mapping[str, Answer]) -> tuple[str, ...]:
    words = [line.removeprefix("engine ") for line in output(replies, LOGIN_NODE).splitlines()]
    found = {ENGINES.get(word, word) for word in words}
    return tuple(name for name in ("pyxis", "edf", *ENGINES.values()) if name in found)


class Shares(NamedTuple):
    """What belongs to each GPU."""

    cpus: int | None
    memory: int | None
    "In MiB."


def _node_facts(cluster: Cluster) -> Iterator[Fact]:
    if cluster.base is None:
        return
    yield from _shape(("node",), cluster.base)
    name = architecture(cluster.groups, cluster.base)
    if name in ("x86_64", "aarch64"):
        yield Fact(("architecture",), name, NODES)
    every = {kind: None for counts in cluster.by_partition.values() for kind in counts}
    for name in sorted({kind.gpu_type for kind in every if NAME.fullmatch(kind.gpu_type)}):
        of_type = [kind for kind in every if kind.gpu_type == name]
        yield from _type(name, of_type, cluster.base, _site_shares(cluster))


def _type(name: str, of_type: list[Kind], base: Kind, usual_shares: Shares) -> Iterator[Fact]:
    kind = usual([Counter(of_type)])
    if kind and len({other.shape for other in of_type}) == 1 and kind.shape != base.shape:
        yield from _shape(("gpu", "types", name), kind)
        yield from _own_shares(("gpu", "types", name), _fit(usual_shares, kind), usual_shares, NODES)
    else:
        yield Fact(("gpu", "types", name), {}, NODES)


def _shape(keys: Keys, kind: Kind) -> Iterator[Fact]:
    yield Fact((*keys, "gpus"), kind.gpus, NODES)
    yield Fact((*keys, "cpus"), kind.cpus, NODES)
    if kind.memory >= _LEAST_MEMORY:
        yield Fact((*keys, "memory"), units.canonical_size(kind.memory), NODES)


def _share_facts(cluster: Cluster) -> Iterator[Fact]:
    """What belongs to a GPU by default, and the unit in which CPUs are allocated."""
    partition = _default_partition(cluster)
    command = PARTITIONS if known(partition.get("JobDefaults")) else CONFIG
    cpus, memory = _site_shares(cluster)
    if cpus:
        yield Fact(("cpu", "per_gpu"), cpus, command)
    if memory:
        yield Fact(("memory", "per_gpu"), units.canonical_size(memory), command)
    parameters = cluster.config.get("SelectTypeParameters", "").upper()
    if parameters and "MEMORY" not in parameters:
        yield Fact(("memory", "form"), "optional", CONFIG)  # Slurm does not allocate memory
    if size := number(cluster.config.get("MaxArraySize")):
        yield Fact(("max_array_size",), size, CONFIG)
    if cluster.base and cluster.base.threads_per_core > 1 and "CR_CORE" in parameters:
        yield Fact(("cpu", "multiple_of"), cluster.base.threads_per_core, CONFIG)


def _site_shares(cluster: Cluster) -> Shares:
    """What belongs to a GPU of the usual node: by the default partition, else by the configuration."""
    stated = _shares(_default_partition(cluster), cluster.config)
    return _fit(stated, cluster.base) if cluster.base else stated


def _shares(partition: Entry, config: Entry) -> Shares:
    """What belongs to a GPU in a partition; its JobDefaults replace those of the configuration."""
    text = known(partition.get("JobDefaults")) or known(config.get("JobDefaults")) or ""
    pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    return Shares(number(pairs.get("DefCpuPerGPU")) or None, number(pairs.get("DefMemPerGPU")) or None)


def _fit(stated: Shares, kind: Kind) -> Shares:
    """The shares with which a job may have all GPUs of a node: the default of Slurm may exceed them."""
    return Shares(
        stated.cpus and (least(stated.cpus, kind.cpus // kind.gpus) or None),
        stated.memory and (least(stated.memory, max(kind.memory, 0) // kind.gpus) or None),
    )


def _own_shares(keys: Keys, own: Shares, usual_shares: Shares, command: str) -> Iterator[Fact]:
    if own.cpus and own.cpus != usual_shares.cpus:
        yield Fact((*keys, "cpus_per_gpu"), own.cpus, command)
    if own.memory and own.memory != usual_shares.memory:
        yield Fact((*keys, "memory_per_gpu"), units.canonical_size(own.memory), command)


def _default_partition(cluster: Cluster) -> Entry:
    return next((entry for entry in cluster.partitions if entry.get("Default") == "YES"), {})


_CONFIG = (
    *("SLURM_VERSION", "JobSubmitPlugins", "CliFilterPlugins", "EnforcePartLimits"),
    *("DefMemPerNode", "DefMemPerCPU", "JobRequeue", "KillWait", "PreemptMode", "PriorityFlags"),
)
_PARTITION = (
    *("AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos", "AllowGroups", "QoS", "DefaultTime"),
    *("DefMemPerNode", "DefMemPerCPU", "MaxMemPerCPU", "PreemptMode", "TRESBillingWeights"),
)
_QOS = ("Flags", "MaxTRES", "MaxTRESPerUser", "MaxTRESPerNode", "GrpTRES", "UsageFactor", "MaxJobsPerUser")
_LOGIN_NODE = {
    "architecture ": "architecture of the login node",
    "engine ": "container engines",
    "module ": "modules",
}
_USUAL = {"ALL", "OFF", "1.000000", "1"}
"Values that change nothing."
_MOST = 40
"Kinds of nodes that are listed."
_LONGEST = 200
"Characters of a line from the cluster."


def _notes(cluster: Cluster, replies: Mapping[str, Answer]) -> Iterator[Fact]:
    """Values that a profile has no key for, with the table that they belong to."""
    yield from _values((), cluster.config, _CONFIG, CONFIG)
    yield from _kind_facts(cluster)
    for word, title in _LOGIN_NODE.items():
        lines = output(replies, LOGIN_NODE).splitlines()
        names = [line.removeprefix(word) for line in lines if line.startswith(word)]
        if names:
            yield Fact((title,), ", ".join(names), LOGIN_NODE)
    for entry in cluster.partitions:
        yield from _values(("partitions", entry["PartitionName"]), entry, _PARTITION, PARTITIONS)
    for name in {name: None for _, qos, _ in cluster.associations for name in qos}:
        yield from _values(("qos", name), cluster.qos.get(name, {}), _QOS, QOS)


def _values(
    keys: tuple[str, ...], entry: Mapping[str, str], names: tuple[str, ...], command: str
) -> Iterator[Fact]:
    for name in names:
        value = known(entry.get(name))
        if value and value not in _USUAL:
            yield Fact((*keys, name), value[:_LONGEST], command)


def _kind_facts(cluster: Cluster) -> Iterator[Fact]:
    counts: Counter[Kind] = Counter()
    partitions: dict[Kind, dict[str, None]] = {}
    for group in cluster.groups:
        for kind in group.kinds:
            counts[kind] += group.number
            partitions.setdefault(kind, {}).update(dict.fromkeys(group.partitions))
    for kind, nodes in counts.most_common(_MOST):
        has = f"{counted(kind.gpus, 'GPU')} {kind.gpu_type}".strip() if kind.gpus else "no GPUs"
        text = f"{has}, {kind.cpus} CPUs, {units.canonical_size(max(kind.memory, 0))}"
        text += f"; partitions {listed(partitions[kind])}" if partitions[kind] else "; in no partition"
        common = features(cluster.groups, kind)
        text += f"; features {listed(common)}" if common else ""
        yield Fact((counted(nodes, "node"),), text, NODES)


def _unknown(cluster: Cluster, replies: Mapping[str, Answer]) -> Iterator[str]:
    """What a reader of the profile must find out elsewhere."""
    for command in COMMANDS:
        reply = replies.get(command)
        if reply is None or not reply.succeeded:
            yield f"{_ABOUT[command]} (`{command.split()[0]}`: {_reason(reply)})"
    if plugins := known(cluster.config.get("JobSubmitPlugins")):
        yield f"what the job_submit plugin ({plugins}) changes or refuses"
    hidden = [entry["PartitionName"] for entry in cluster.all_partitions if entry.get("Hidden") == "YES"]
    if hidden:
        yield f"hidden partitions: {', '.join(hidden)}"
    closed = [*_closed_to(cluster.partitions, {account for account, _, _ in cluster.associations})]
    if closed:
        yield f"who may use the partitions {', '.join(closed)}: they allow none of your accounts"
    yield from SLURM_CANNOT_KNOW


def _reason(reply: Answer | None) -> str:
    lines = reply.output.strip().splitlines() if reply else []
    return lines[-1][:_LONGEST] if lines else "no output"


SLURM_CANNOT_KNOW = (
    "whether jobs must name an account, and how users find theirs",
    "how GPUs must be requested: --gres is assumed",
    "modules, and the variables that NCCL needs on this network",
    "whether compute nodes reach the internet",
)
_ABOUT = {
    CONFIG: "the configuration",
    PARTITIONS: "partitions",
    NODES: "nodes",
    ASSOCIATIONS: "accounts",
    QOS: "QoS and their limits",
}

_JOB_LIMITS = ("MaxTRES", "MaxTRESPerUser", "GrpTRES")
"A job above any of these never starts."


def _partition_facts(cluster: Cluster) -> Iterator[Fact]:
    for entry in cluster.partitions:
        facts = [*_limits(cluster, entry), *_nodes(cluster, entry)]
        yield from facts or [Fact(("partitions", entry["PartitionName"]), {}, PARTITIONS)]


def _limits(cluster: Cluster, entry: Entry) -> Iterator[Fact]:
    """The limits of a partition and of its own QoS: the stricter one holds."""
    own = _partition_limits(cluster, entry)
    of_qos = _job_limits(cluster.qos.get(entry.get("QoS", ""), {}))
    for key in {**own, **of_qos}:
        value = _stricter(key, own.get(key), of_qos.get(key))
        if value is not None:
            command = PARTITIONS if value == own.get(key) else QOS
            yield Fact(("partitions", entry["PartitionName"], key), value, command)


def _partition_limits(cluster: Cluster, entry: Entry) -> dict[str, Any]:
    is_linear = cluster.config.get("SelectType") == "select/linear"
    return {
        "default": entry.get("Default") == "YES" or None,
        "max_time": entry.get("MaxTime"),
        "max_nodes": _positive(entry.get("MaxNodes")),
        "min_nodes": _positive(entry.get("MinNodes"), above=1),
        "whole_nodes": entry.get("OverSubscribe") == "EXCLUSIVE" or is_linear or None,
        "preemptible": _is_preemptible(cluster, entry) or None,
    }


def _is_preemptible(cluster: Cluster, entry: Entry) -> bool:
    """Whether a partition with a higher tier may stop its jobs (https://slurm.schedmd.com/preempt.html)."""
    by_partition = cluster.config.get("PreemptType") == "preempt/partition_prio"
    tiers = [number(each.get("PriorityTier")) or 0 for each in cluster.all_partitions]
    is_lower = (number(entry.get("PriorityTier")) or 0) < max(tiers, default=0)
    return by_partition and is_lower and (known(entry.get("PreemptMode")) or "OFF") != "OFF"


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
        seconds = units.time_limit(text)
    except ValueError:
        return None
    return float("inf") if seconds is None else seconds


def _nodes(cluster: Cluster, entry: Entry) -> Iterator[Fact]:
    name = entry["PartitionName"]
    counts = cluster.by_partition.get(name, Counter())
    kind = usual([counts])
    if kind is None or cluster.base is None:
        if cluster.groups:
            yield Fact(("partitions", name, "max_gpus"), 0, NODES)
        return
    types = {other.gpu_type for other in counts if other.gpus}
    if len(types) == 1 and NAME.fullmatch(kind.gpu_type):
        yield Fact(("partitions", name, "gpu_type"), kind.gpu_type, NODES)
    kind = _allowed(kind, entry)
    if kind.shape != cluster.base.shape:
        yield from _shape(("partitions", name, "node"), kind)
    own = _fit(_shares(entry, cluster.config), kind)
    yield from _own_shares(("partitions", name, "node"), own, _site_shares(cluster), PARTITIONS)


def _allowed(kind: Kind, entry: Entry) -> Kind:
    """What of a node the jobs of a partition may use."""
    cpus = least(kind.cpus, _positive(entry.get("MaxCPUsPerNode")))
    memory = least(kind.memory, _positive(entry.get("MaxMemPerNode")))
    return kind._replace(cpus=cpus or kind.cpus, memory=memory or kind.memory)


def _qos_facts(cluster: Cluster) -> Iterator[Fact]:
    """The QoS that the user's associations allow, with their limits."""
    allowed = {name for _, qos, _ in cluster.associations for name in qos}
    preferred = {default for _, _, default in cluster.associations} - {""}
    for name, row in cluster.qos.items():
        if name in allowed:
            values = {"default": preferred == {name} or None, **_qos_limits(row)}
            facts = [
                Fact(("qos", name, key), value, QOS) for key, value in values.items() if value is not None
            ]
            yield from facts or [Fact(("qos", name), {}, QOS)]


def _qos_limits(row: Entry) -> dict[str, Any]:
    return {
        **_job_limits(row),
        "max_jobs": number(row.get("MaxSubmitJobsPerUser")),
        "replaces_partition_limits": "OverPartQOS" in row.get("Flags", "") or None,
    }


def _job_limits(row: Entry) -> dict[str, Any]:
    most, fewest = [row.get(key, "") for key in _JOB_LIMITS], [row.get("MinTRES", "")]
    memory = least_of("mem", most)
    return {
        "max_time": known(row.get("MaxWall")),
        "max_gpus": least_of("gres/gpu", most),
        "max_nodes": least_of("node", most),
        "max_cpus": least_of("cpu", most),
        "max_memory": units.canonical_size(memory) if memory else None,
        "min_gpus": least_of("gres/gpu", fewest),
        "min_nodes": least_of("node", fewest),
    }


def _closed_to(entries: Iterable[Entry], accounts: set[str]) -> Iterator[str]:
    for entry in entries:
        allowed = known(entry.get("AllowAccounts")) or "ALL"
        denied = set((known(entry.get("DenyAccounts")) or "").split(","))
        if accounts and (accounts <= denied or (allowed != "ALL" and not accounts & set(allowed.split(",")))):
            yield entry["PartitionName"]


def _positive(text: str | None, above: int = 0) -> int | None:
    value = number(text)
    return value if value is not None and value > above else None
