"""Which sources support the facts of a profile."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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
    stated = _stated(site)
    return {key: _sources(site, key, stated) for key in keys}


def _sources(site: Site, key: str, stated: Sequence[str]) -> tuple[str, ...]:
    below = [fact for fact in stated if _is_below(fact, key) and not _is_below(fact, f"{key}.node")]
    named = any(_is_below(key, fact) for source in site.sources.values() for fact in source.facts)
    names = (site.source_of(fact) for fact in (below or ([key] if named else [])))
    return tuple(dict.fromkeys(name for name in names if name))


def _is_below(key: str, table: str) -> bool:
    return key == table or key.startswith(f"{table}.")


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
