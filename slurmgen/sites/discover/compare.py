"""The differences between a profile and the cluster."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from slurmgen.sites.discover.cluster import Fact
from slurmgen.sites.discover.facts import Discovery
from slurmgen.sites.model import Site
from slurmgen.slurm import durations, sizes

_OF_LOGIN = ("login", "container")
"Facts of the login node: it may have another name and other engines than the nodes for jobs."


class Difference(NamedTuple):
    """A fact that the profile and the cluster state differently."""

    key: str
    profile: str
    cluster: str


def differences(site: Site, found: Discovery, *, all_types: bool = False) -> Iterator[Difference]:
    """The facts that profile and cluster state differently. What a profile leaves out does not count.

    Args:
        site: the profile.
        found: the cluster.
        all_types: whether the cluster must have every GPU type; a twin has one for each partition.
    """
    yield from _missing("partitions", site.partitions, found.partitions, "no such partition")
    yield from _missing("qos", site.qos, found.qos, "no such QoS")
    yield from _missing(
        "gpu.types", _requested_types(site) if all_types else (), _types(found), "no such GPU type"
    )
    for fact in found.facts:
        stated = _stated(site, fact.keys)
        if isinstance(fact.value, dict) or stated is None or stated is False or fact.keys[0] in _OF_LOGIN:
            continue
        if not _is_same(fact, stated):
            yield Difference(".".join(fact.keys), str(stated), str(fact.value))


def _missing(
    table: str, stated: Collection[str], reported: Collection[str], text: str
) -> Iterator[Difference]:
    """The names that the cluster lacks, if it reported any."""
    for name in stated if reported else ():
        if name not in reported:
            yield Difference(f"{table}.{name}", "stated", text)


def _requested_types(site: Site) -> list[str]:
    """The GPU types with a name in Slurm; the others are selected by a constraint."""
    return [name for name, gpu in site.gpu.types.items() if not gpu.constraint]


def _types(found: Discovery) -> set[str]:
    return {fact.keys[2] for fact in found.facts if fact.keys[:2] == ("gpu", "types")}


def _is_same(fact: Fact, stated: Any) -> bool:
    """Whether the values are equal; those of memory may differ by the MiB that rounding makes."""
    mine, theirs = _canonical(stated), _canonical(fact.value)
    is_memory = "memory" in fact.keys[-1] or "memory" in fact.keys
    if is_memory and isinstance(mine, int) and isinstance(theirs, int):
        return abs(mine - theirs) <= 1
    return bool(mine == theirs)


def _stated(site: Site, keys: tuple[str, ...]) -> Any:
    """The value of a profile under these keys; None if it states none."""
    value: Any = site
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, Struct):
            value = getattr(value, key, None)
        else:
            return None
    return value


def _minutes(text: str) -> int | None:
    """A time limit in whole minutes, to which Slurm rounds it up; None if there is no limit."""
    seconds = durations.limit(text)
    return None if seconds is None else -(-seconds // 60)


def _canonical(value: Any) -> Any:
    """A time or size as a number, so that one value written in two ways is equal."""
    if not isinstance(value, str):
        return value
    for read in (_minutes, sizes.megabytes):
        try:
            return read(value)
        except ValueError:
            continue
    return value
