"""The text of a discovered profile."""

from collections.abc import Iterator

from slurmgen.sites.discover.cluster import Fact, Keys
from slurmgen.sites.discover.facts import Discovery
from slurmgen.sites.discover.query import PROBE
from slurmgen.text import toml_key, toml_value, visible


def profile_text(found: Discovery, name: str, date: str) -> str:
    """A profile as TOML; a comment behind each fact names its command and the date."""
    head = [
        f"# {name}, described by `slurmgen sites discover` on {date}.",
        "# Not known, to be found in the site's documentation:",
        *(f"#   {visible(text)}" for text in found.unknown),
        *_head_notes(found, date),
        f"name = {toml_value(name)}",
    ]
    top = [_line(fact, date) for fact in found.facts if len(fact.keys) == 1]
    return "\n".join([*head, *top, *_tables(found, date), *_sources(found, date), ""])


def _head_notes(found: Discovery, date: str) -> Iterator[str]:
    notes = [note for note in found.notes if len(note.keys) == 1]
    if notes:
        yield "# Known, but without a key in a profile:"
        yield from (f"#   {_note(note, date)}" for note in notes)


def _tables(found: Discovery, date: str) -> Iterator[str]:
    """The tables in the order of their first facts, each with its notes."""
    tables: dict[Keys, list[str]] = {}
    seen: dict[Keys, str] = {}
    for fact in found.facts:
        if isinstance(fact.value, dict):
            tables.setdefault(fact.keys, [])
            seen[fact.keys] = f"  {_seen(fact, date)}"
        elif len(fact.keys) > 1:
            tables.setdefault(fact.keys[:-1], []).append(_line(fact, date))
    for note in found.notes:
        if note.keys[:-1] in tables:
            tables[note.keys[:-1]].append(f"# {_note(note, date)}")
    for keys, lines in tables.items():
        yield ""
        yield f"[{'.'.join(map(toml_key, keys))}]{seen.get(keys, '')}"
        yield from lines


def _line(fact: Fact, date: str) -> str:
    return f"{toml_key(fact.keys[-1])} = {toml_value(fact.value)}  {_seen(fact, date)}"


def _note(note: Fact, date: str) -> str:
    return visible(f"{note.keys[-1]}: {note.value}  {_seen(note, date)}")


def _seen(fact: Fact, date: str) -> str:
    return f"# seen {date} by {command_name(fact.command)}"


def command_name(command: str) -> str:
    """A command without its options."""
    words = [word for word in command.split() if not word.startswith("-") and "=" not in word]
    return " ".join(words)


def _sources(found: Discovery, date: str) -> Iterator[str]:
    """A source for the facts of the login node, and one for those of a job."""
    probed = [".".join(fact.keys) for fact in found.facts if fact.command == PROBE]
    others = [fact.keys[0] for fact in found.facts if fact.command != PROBE]
    yield from _source("discover", "slurmgen sites discover", others, date)
    yield from _source("probe", "slurmgen sites discover --probe", probed, date)


def _source(name: str, title: str, keys: list[str], date: str) -> Iterator[str]:
    if keys:
        yield from (
            "",
            f"[sources.{name}]",
            'mark = "discovered"',
            f"title = {toml_value(title)}",
            f"date = {toml_value(date)}",
            f"facts = {toml_value(list(dict.fromkeys(keys)))}",
        )
