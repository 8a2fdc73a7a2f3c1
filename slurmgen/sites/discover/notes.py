"""What a profile has no key for, and what Slurm cannot know. Both become comments."""

from collections import Counter
from collections.abc import Iterator, Mapping

from slurmgen.sites.discover.cluster import Cluster, Fact, output
from slurmgen.sites.discover.nodes import Kind, features
from slurmgen.sites.discover.partitions import closed_to
from slurmgen.sites.discover.query import (
    ASSOCIATIONS,
    COMMANDS,
    CONFIG,
    LOGIN_NODE,
    NODES,
    PARTITIONS,
    QOS,
    Answer,
)
from slurmgen.sites.discover.records import known
from slurmgen.slurm import sizes
from slurmgen.text import counted, listed

_CONFIG = (
    *("SLURM_VERSION", "MaxArraySize", "JobSubmitPlugins", "CliFilterPlugins", "EnforcePartLimits"),
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


def notes(cluster: Cluster, replies: Mapping[str, Answer]) -> Iterator[Fact]:
    """Values that a profile has no key for, with the table that they belong to."""
    yield from _values((), cluster.config, _CONFIG, CONFIG)
    yield from _kinds(cluster)
    for word, title in _LOGIN_NODE.items():
        names = [line.removeprefix(word) for line in _lines(replies) if line.startswith(word)]
        if names:
            yield Fact((title,), ", ".join(names), LOGIN_NODE)
    for entry in cluster.partitions:
        yield from _values(("partitions", entry["PartitionName"]), entry, _PARTITION, PARTITIONS)
    for name in {name: None for association in cluster.associations for name in association.qos}:
        yield from _values(("qos", name), cluster.qos.get(name, {}), _QOS, QOS)


def _values(
    keys: tuple[str, ...], entry: Mapping[str, str], names: tuple[str, ...], command: str
) -> Iterator[Fact]:
    for name in names:
        value = known(entry.get(name))
        if value and value not in _USUAL:
            yield Fact((*keys, name), value[:_LONGEST], command)


def _kinds(cluster: Cluster) -> Iterator[Fact]:
    """Every kind of node with its number, its partitions and its features, the commonest first."""
    counts: Counter[Kind] = Counter()
    partitions: dict[Kind, dict[str, None]] = {}
    for group in cluster.groups:
        for kind in group.kinds:
            counts[kind] += group.number
            partitions.setdefault(kind, {}).update(dict.fromkeys(group.partitions))
    for kind, number in counts.most_common(_MOST):
        has = f"{counted(kind.gpus, 'GPU')} {kind.gpu_type}".strip() if kind.gpus else "no GPUs"
        text = f"{has}, {kind.cpus} CPUs, {sizes.canonical(max(kind.memory, 0))}"
        text += f"; partitions {listed(partitions[kind])}" if partitions[kind] else "; in no partition"
        common = features(cluster.groups, kind)
        text += f"; features {listed(common)}" if common else ""
        yield Fact((counted(number, "node"),), text, NODES)


def _lines(replies: Mapping[str, Answer]) -> list[str]:
    return output(replies, LOGIN_NODE).splitlines()


def unknown(cluster: Cluster, replies: Mapping[str, Answer]) -> Iterator[str]:
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
    closed = [*closed_to(cluster.partitions, {one.account for one in cluster.associations})]
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
