"""The text of a new profile: each key with a comment, and unknown keys as comments with their question."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from slurmgen.field_notes import field_notes
from slurmgen.sites.access import Source
from slurmgen.sites.model import Site
from slurmgen.sites.new.answers import Keys
from slurmgen.sites.new.questions import Open
from slurmgen.text import toml_key, toml_value, visible

MARK = "# ?"
"Begins the lines of questions that wait for an answer."
ANSWERS, DISCOVERED = "answers", "discover"
"The sources of what the user answered, and of what a cluster reported."
_HEAD = (
    "# {name}, written by `slurmgen sites new` on {date}.",
    "# A key that is not set is unknown: slurmgen then requires an option, or uses a default.",
    f"# A line with `{MARK}` is a question: write the answer below it, without the `#`.",
)


class Stated(NamedTuple):
    """A fact of the profile and the source that states it."""

    keys: Keys
    value: Any
    source: str
    "The name of its table in [sources]."
    seen: str = ""
    "When and how a cluster reported it."


def profile_text(
    name: str,
    facts: Sequence[Stated],
    unknown: Sequence[Open],
    sources: Mapping[str, Source],
    remarks: Sequence[str],
    date: str,
) -> str:
    """The text of a profile in TOML.

    Args:
        name: the name of the site.
        facts: what is known.
        unknown: what is not.
        sources: the sources by name, without their facts.
        remarks: what readers must know besides.
        date: today, as YYYY-MM-DD.
    """
    head = [line.format(name=name, date=date) for line in _HEAD] + [f"# {visible(text)}" for text in remarks]
    lines = [*head, f"name = {toml_value(name)}"]
    described: set[str] = set()
    for table in _tables(facts, unknown):
        lines += _table(table, facts, unknown, described)
    for source in sources:
        lines += _source(source, sources[source], _supported(source, facts))
    return "\n".join([*lines, ""])


def _tables(facts: Sequence[Stated], unknown: Sequence[Open]) -> list[Keys]:
    """The tables in the order of the keys of a site; the keys outside of tables are first."""
    order = list(Site.__struct_fields__)
    tables = dict.fromkeys([(), *map(_table_of, facts), *(gap.keys[:-1] for gap in unknown)])
    return sorted(tables, key=lambda keys: (order.index(keys[0]), len(keys) > 1) if keys else (-1, False))


def _table_of(fact: Stated) -> Keys:
    return fact.keys if fact.value == {} else fact.keys[:-1]


def _table(
    table: Keys, facts: Sequence[Stated], unknown: Sequence[Open], described: set[str]
) -> Iterator[str]:
    """The lines of a table; without a fact, its head is a comment too."""
    stated = [fact for fact in facts if _table_of(fact) == table]
    if table:
        head = f"[{'.'.join(map(toml_key, table))}]"
        yield from ("", *_comment(table, described), head if stated else f"# {head}")
    for fact in stated:
        if fact.value != {}:
            seen = f"  # {fact.seen}" if fact.seen else ""
            yield from (*_comment(fact.keys, described), _line(fact.keys, fact.value) + seen)
    for gap in unknown:
        if gap.keys[:-1] == table:
            yield from (f"{MARK} {gap.text}?", f"# {_line(gap.keys, gap.example)}")


def _comment(keys: Keys, described: set[str]) -> list[str]:
    """What a key means, the first time."""
    note = meaning(keys)
    is_new = note not in described
    described.add(note)
    return [f"# {note}"] if is_new else []


def _line(keys: Keys, value: Any) -> str:
    return f"{toml_key(keys[-1])} = {toml_value(value)}"


def _source(name: str, source: Source, facts: Sequence[str]) -> Iterator[str]:
    yield from ("", f"[sources.{toml_key(name)}]")
    for key, value in msgspec.to_builtins(source).items():
        yield f"{key} = {toml_value(value)}"
    if facts:
        yield f"facts = {toml_value(facts)}"


def _supported(source: str, facts: Sequence[Stated]) -> list[str]:
    """The keys for `facts` of a source; none for the answers, which support what is added later too."""
    own = [fact.keys for fact in facts if fact.source == source != ANSWERS]
    return list(dict.fromkeys(".".join(_without_dots(keys)) for keys in own))


def _without_dots(keys: Keys) -> Keys:
    """The keys up to the first with a dot, which `facts` cannot express."""
    return keys[: next((index for index, key in enumerate(keys) if "." in key), len(keys))]


def meaning(keys: Keys) -> str:
    """What a key of a profile means, in the words of its struct."""
    kind: Any = Site
    note = ""
    for key in keys:
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            continue
        struct = next((part for part in (kind, *get_args(kind)) if hasattr(part, "__struct_fields__")), None)
        if struct is None:
            break
        note = field_notes(struct)[key]
        kind = next(field.type for field in msgspec.structs.fields(struct) if field.name == key)
    return note
