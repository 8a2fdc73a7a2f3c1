"""Which sources support the facts of a profile."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import to_builtins

from slurmgen.sites.model import Site

_UNSOURCED = ("name", "title", "extends", "sources")


def facts_by_mark(site: Site) -> "Counter[str]":
    """The number of facts by the mark of their source; a list counts as one, a default does not count."""
    sources = [site.source_of(key) for key in _stated(site)]
    return Counter(site.sources[name].mark for name in sources if name)


def sources_of(site: Site, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names of the sources of each fact, or of all stated facts of each table, by its key.

    The node of a partition counts for itself. A default has a source only if one names it.
    """
    found: dict[str, dict[str, None]] = {}
    for fact in _stated(site):
        if name := site.source_of(fact):
            for table in _tables(fact):
                found.setdefault(table, {})[name] = None
    return {key: tuple(found.get(key) or _named(site, key)) for key in keys}


def _tables(fact: str) -> Iterator[str]:
    """The fact, and the tables that it is in."""
    parts = fact.split(".")
    for end in range(1, len(parts) + 1):
        if parts[end : end + 1] != ["node"]:
            yield ".".join(parts[:end])


def _named(site: Site, key: str) -> Iterator[str]:
    """The source that names a fact, or a table that it is in."""
    tables, name = {*_tables(key)}, site.source_of(key)
    if name and any(tables.intersection(source.facts) for source in site.sources.values()):
        yield name


def _stated(site: Site) -> list[str]:
    facts = {key: value for key, value in to_builtins(site).items() if key not in _UNSOURCED}
    return [*_leaves(facts, "")]


def _leaves(value: object, key: str) -> Iterator[str]:
    """The keys of all values that are not tables, and of empty tables."""
    if not isinstance(value, dict) or not value:
        yield key
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{key}.{name}".lstrip("."))
