"""The text of a discovered profile."""

from collections.abc import Iterator

from slurmgen.sites.discover.facts import Discovery, Fact
from slurmgen.text import toml_key, toml_value, visible


def profile_text(found: Discovery, name: str, date: str) -> str:
    """A profile as TOML; a comment behind each fact names its command and the date."""
    head = [
        "#:schema ../schemas/site.json",
        f"# {name}, described by `slurmgen sites discover` on {date}.",
        "# Not known, to be found in the site's documentation:",
        *(f"#   {visible(text)}" for text in found.unknown),
        f"name = {toml_value(name)}",
    ]
    top = [_line(fact, date) for fact in found.facts if len(fact.keys) == 1]
    return "\n".join([*head, *top, *_tables(found, date), *_source(found, date), ""])


def _tables(found: Discovery, date: str) -> Iterator[str]:
    """The tables in the order of their first facts."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for fact in found.facts:
        if isinstance(fact.value, dict):
            tables.setdefault(fact.keys, [])
        elif len(fact.keys) > 1:
            tables.setdefault(fact.keys[:-1], []).append(_line(fact, date))
    for keys, lines in tables.items():
        yield ""
        yield f"[{'.'.join(map(toml_key, keys))}]"
        yield from lines


def _line(fact: Fact, date: str) -> str:
    return (
        f"{toml_key(fact.keys[-1])} = {toml_value(fact.value)}  # seen {date} by {command_name(fact.command)}"
    )


def _source(found: Discovery, date: str) -> Iterator[str]:
    keys = list(dict.fromkeys(fact.keys[0] for fact in found.facts))
    yield from (
        "",
        "[sources.discover]",
        'mark = "discovered"',
        'title = "slurmgen sites discover"',
        f"date = {toml_value(date)}",
        f"facts = {toml_value(keys)}",
    )


def command_name(command: str) -> str:
    """A command without its options."""
    words = [word for word in command.split() if not word.startswith("-") and "=" not in word]
    return " ".join(words)
