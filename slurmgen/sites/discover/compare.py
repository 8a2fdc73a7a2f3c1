"""The differences between a profile and the cluster."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from slurmgen.sites.discover.facts import Discovery
from slurmgen.sites.model import Site
from slurmgen.slurm import durations, sizes


class Difference(NamedTuple):
    """A fact that the profile and the cluster state differently."""

    key: str
    profile: str
    cluster: str


def differences(site: Site, found: Discovery) -> Iterator[Difference]:
    """The facts that profile and cluster state differently. What a profile leaves out does not count."""
    for name in site.partitions if found.partitions else ():
        if name not in found.partitions:
            yield Difference(f"partitions.{name}", "stated", "no such partition")
    for fact in found.facts:
        stated = _stated(site, fact.keys)
        if isinstance(fact.value, dict) or stated is None or stated is False or fact.keys[0] == "login":
            continue
        if _canonical(stated) != _canonical(fact.value):
            yield Difference(".".join(fact.keys), str(stated), str(fact.value))


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
