"""The differences between a profile and the cluster."""

from collections.abc import Collection, Iterator
from functools import reduce
from typing import Any, NamedTuple

import msgspec
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
    for name in _gone_types(site, found) if all_types else ():
        yield Difference(f"gpu.types.{name}", "stated", "no such GPU type")
    for fact, stated in _different(site, found):
        yield Difference(".".join(fact.keys), str(stated), str(fact.value))


def corrected(site: Site, found: Discovery) -> Site:
    """The profile with the cluster's values where both state one, without names that the cluster lacks."""
    values: dict[str, Any] = msgspec.to_builtins(site)
    types = set(_gone_types(site, found))
    gone = {"partitions": found.partitions, "qos": found.qos}
    for table, reported in gone.items():
        if reported:
            values[table] = {name: entry for name, entry in values.get(table, {}).items() if name in reported}
    _remove_types(values, types)
    for fact, _ in _different(site, found):
        *tables, key = fact.keys
        reduce(dict.__getitem__, tables, values)[key] = fact.value
    return msgspec.convert(values, Site)


def _remove_types(values: dict[str, Any], types: Collection[str]) -> None:
    """Remove GPU types, and all that names them, from the data of a profile."""
    gpu = values.get("gpu", {})
    for name in types:
        del gpu["types"][name]
    if types and not gpu["types"]:
        gpu.pop("type_required", None)
    named = [(gpu, "default_type")]
    named += [(partition, "gpu_type") for partition in values.get("partitions", {}).values()]
    for table, key in named:
        if table.get(key) in types:
            del table[key]


def _different(site: Site, found: Discovery) -> Iterator[tuple[Fact, Any]]:
    """Each fact of the cluster that the profile states otherwise, with what it states."""
    for fact in found.facts:
        stated = _stated(site, fact.keys)
        if isinstance(fact.value, dict) or stated is None or stated is False or fact.keys[0] in _OF_LOGIN:
            continue
        if not _is_same(fact, stated):
            yield fact, stated


def _missing(
    table: str, stated: Collection[str], reported: Collection[str], text: str
) -> Iterator[Difference]:
    """The names that the cluster lacks, if it reported any."""
    for name in stated if reported else ():
        if name not in reported:
            yield Difference(f"{table}.{name}", "stated", text)


def _gone_types(site: Site, found: Discovery) -> list[str]:
    """The GPU types of a profile that no node has, if the cluster reported any GPUs."""
    reported = _types(found)
    has_gpus = any(fact.keys == ("node", "gpus") for fact in found.facts)
    return [name for name in _requested_types(site) if name not in reported] if has_gpus else []


def _requested_types(site: Site) -> list[str]:
    """The GPU types with a name in Slurm; the others are selected by a constraint or another directive."""
    return [name for name, gpu in site.gpu.types.items() if not (gpu.constraint or gpu.sbatch)]


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
