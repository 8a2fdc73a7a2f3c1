"""What the replies of a cluster hold, read but not yet judged."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from slurmgen.sites.discover.nodes import Group, Kind, groups, kinds, usual
from slurmgen.sites.discover.query import ASSOCIATIONS, CONFIG, NODES, PARTITIONS, QOS, QOS_FIELDS, Answer
from slurmgen.sites.discover.records import records, settings

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
PARTITION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}")
Keys = tuple[str, ...]
Entry = Mapping[str, str]


class Fact(NamedTuple):
    """A value, its keys in the profile, and the command that reported it."""

    keys: Keys
    value: Any
    command: str


class Association(NamedTuple):
    """An account that the user may charge."""

    account: str
    qos: tuple[str, ...]
    default_qos: str


class Cluster(NamedTuple):
    """The replies as records."""

    config: Entry
    all_partitions: tuple[Entry, ...]
    "Hidden and closed ones too."
    groups: tuple[Group, ...]
    associations: tuple[Association, ...]
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


class Hardware(NamedTuple):
    """The kinds of nodes, and the usual one."""

    by_partition: Mapping[str, Counter[Kind]]
    base: Kind | None
    "The commonest GPU node of the default partition, else of the whole cluster."


def read(replies: Mapping[str, Answer]) -> Cluster:
    """The records in the replies to `QUERY`; a command that failed has none."""
    config = settings(output(replies, CONFIG))
    partitions = {entry.get("PartitionName", ""): entry for entry in records(output(replies, PARTITIONS))}
    return Cluster(
        config=config,
        all_partitions=tuple(entry for name, entry in partitions.items() if PARTITION_NAME.fullmatch(name)),
        groups=tuple(groups(records(output(replies, NODES)))),
        associations=_associations(output(replies, ASSOCIATIONS), config.get("ClusterName", "")),
        qos=_qos(output(replies, QOS)),
    )


def hardware(cluster: Cluster) -> Hardware:
    """The kinds of nodes of a cluster."""
    by_partition = kinds(cluster.groups)
    default = [entry["PartitionName"] for entry in cluster.partitions if entry.get("Default") == "YES"]
    base = usual([by_partition.get(name, Counter()) for name in default])
    return Hardware(by_partition, base or usual(list(by_partition.values())))


def output(replies: Mapping[str, Answer], command: str) -> str:
    """What a command printed; nothing if it failed."""
    reply = replies.get(command)
    return reply.output if reply and reply.succeeded else ""


def _associations(text: str, cluster: str) -> tuple[Association, ...]:
    """The rows of this cluster: one accounting database may serve several."""
    rows = [[*line.split("|"), "", "", ""] for line in text.splitlines() if "|" in line]
    return tuple(
        Association(row[0], tuple(filter(None, row[1].split(","))), row[2])
        for row in rows
        if not (row[3] and cluster) or row[3].lower() == cluster.lower()
    )


def _qos(text: str) -> dict[str, Entry]:
    rows = [dict(zip(QOS_FIELDS, line.split("|"), strict=False)) for line in text.splitlines()]
    return {row["Name"]: row for row in rows if NAME.fullmatch(row["Name"])}
