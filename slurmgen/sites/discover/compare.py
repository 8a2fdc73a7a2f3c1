"""Compare a profile with a cluster, and write the profile."""

from collections.abc import Collection, Iterator
from functools import reduce
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from slurmgen.sites import new
from slurmgen.sites.discover.profile import Discovery, Fact, Keys
from slurmgen.sites.discover.query import PROBE
from slurmgen.sites.model import Site, Source
from slurmgen.sites.new import Stated
from slurmgen.slurm import units
from slurmgen.text import toml_value, visible

_NOT_COMPARED = ("login", "container", "complete")
"The login node may have another name and other engines than the nodes; `complete` is about the profile."


class Difference(NamedTuple):
    """A fact that the profile and the cluster state differently."""

    key: str
    profile: str
    cluster: str


def differences(site: Site, found: Discovery, *, all_types: bool = False) -> Iterator[Difference]:
    """The facts that profile and cluster state differently. What a profile leaves out does not count.

    Args:
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
    for fact in found.facts:
        stated = _stated(site, fact.keys)
        if isinstance(fact.value, dict) or stated is None or stated is False or fact.keys[0] in _NOT_COMPARED:
            continue
        if not _is_same(fact, stated):
            yield fact, stated


def _missing(
    table: str, stated: Collection[str], reported: Collection[str], text: str
) -> Iterator[Difference]:
    for name in stated if reported else ():
        if name not in reported:
            yield Difference(f"{table}.{name}", "stated", text)


def _gone_types(site: Site, found: Discovery) -> list[str]:
    reported = _types(found)
    has_gpus = any(fact.keys == ("node", "gpus") for fact in found.facts)
    return [name for name in _requested_types(site) if name not in reported] if has_gpus else []


def _requested_types(site: Site) -> list[str]:
    """The GPU types with a name in Slurm; the others are selected by a constraint or another directive."""
    return [name for name, gpu in site.gpu.types.items() if not (gpu.constraint or gpu.sbatch)]


def _types(found: Discovery) -> set[str]:
    return {fact.keys[2] for fact in found.facts if fact.keys[:2] == ("gpu", "types")}


def _is_same(fact: Fact, stated: Any) -> bool:
    """Whether the values are equal; sizes of memory may differ by the MiB of rounding."""
    mine, theirs = _canonical(stated), _canonical(fact.value)
    is_memory = "memory" in fact.keys[-1] or "memory" in fact.keys
    if is_memory and isinstance(mine, int) and isinstance(theirs, int):
        return abs(mine - theirs) <= 1
    return bool(mine == theirs)


def _stated(site: Site, keys: tuple[str, ...]) -> Any:
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
    seconds = units.time_limit(text)
    return None if seconds is None else -(-seconds // 60)


def _canonical(value: Any) -> Any:
    """A time or size as a number, so that one value written in two ways is equal."""
    if not isinstance(value, str):
        return value
    for read in (_minutes, units.megabytes):
        try:
            return read(value)
        except ValueError:
            continue
    return value


def profile_text(found: Discovery, name: str, date: str) -> str:
    """A profile as TOML; a comment behind each fact names its command and the date."""
    facts = [Stated(fact.keys, fact.value, "", _seen(fact, date)) for fact in found.facts]
    tables = {fact.keys if isinstance(fact.value, dict) else fact.keys[:-1] for fact in found.facts}
    comments: dict[Keys, list[str]] = {}
    for note in found.notes:
        if len(note.keys) > 1 and note.keys[:-1] in tables:
            comments.setdefault(note.keys[:-1], []).append(f"# {_note(note, date)}")
    general = [f"#   {_note(note, date)}" for note in found.notes if len(note.keys) == 1]
    head = (
        f"# {name}, described by `slurmgen sites discover` on {date}.",
        "# Not known, to be found in the site's documentation:",
        *(f"#   {visible(text)}" for text in found.unknown),
        *(["# Known, but without a key in a profile:", *general] if general else []),
        f"name = {toml_value(name)}",
    )
    return new.profile_text(head, facts, comments, dict(_sources(found, date)))


def _note(note: Fact, date: str) -> str:
    return visible(f"{note.keys[-1]}: {note.value}  # {_seen(note, date)}")


def _seen(fact: Fact, date: str) -> str:
    return f"seen {date} by {command_name(fact.command)}"


def command_name(command: str) -> str:
    """A command without its options."""
    words = [word for word in command.split() if not word.startswith("-") and "=" not in word]
    return " ".join(words)


def _sources(found: Discovery, date: str) -> Iterator[tuple[str, Source]]:
    """A source of what Slurm reported, by table, and one of what a probe found, by fact."""
    probed = [".".join(fact.keys) for fact in found.facts if fact.command == PROBE]
    others = [fact.keys[0] for fact in found.facts if fact.command != PROBE]
    for name, option, keys in (("discover", "", others), ("probe", " --probe", probed)):
        if keys:
            title, facts = f"slurmgen sites discover{option}", tuple(dict.fromkeys(keys))
            yield name, Source(mark="discovered", title=title, date=date, facts=facts)
