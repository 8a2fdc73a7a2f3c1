"""Write docs/profile-keys.md: every key of a site profile with its type, default, meaning and an example.

`python docs/profile_keys.py` writes the page. A test compares it with the code.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from slurmgen.files import bundled
from slurmgen.sites.model import Site
from slurmgen.text import toml_value
from slurmgen.toml import field_notes

PAGE = Path(__file__).with_name("profile-keys.md")
ANNOTATED = PAGE.parent.parent / "examples" / "new-site" / "site_profiles" / "borealis.toml"
HEAD = """# Keys of a site profile

[Site profiles](sites.md) describes how to write one. A key that is unset is unknown; a
key without a type is a string.
`examples/new-site/site_profiles/borealis.toml` is an annotated profile.
`python docs/profile_keys.py` writes this page.
"""
LONGEST = 70
"Characters of an example."


def page() -> str:
    """The text of the page."""
    examples, tables = _examples(), [*_all_tables("", Site)]
    shortest = {kind: min((p for p, k in tables if k is kind), key=len) for _, kind in tables}
    sections = (_section(prefix, kind, shortest, examples) for prefix, kind in tables)
    return "\n".join([HEAD, *(line for section in sections for line in section)])


def _all_tables(prefix: str, kind: type) -> Iterator[tuple[str, type]]:
    """A table of the profile, and each table within it."""
    yield prefix, kind
    for field in msgspec.structs.fields(kind):
        for inner, suffix in _tables(field.type):
            yield from _all_tables(f"{prefix}.{field.name}{suffix}".lstrip("."), inner)


def _section(prefix: str, kind: type, shortest: dict[type, str], examples: dict[str, str]) -> Iterator[str]:
    """The keys that a table adds to an earlier table of the same type or of its base."""
    yield f"## `[{prefix}]`\n" if prefix else "## Top level\n"
    if prefix:
        yield f"{(kind.__doc__ or '').splitlines()[0]}\n"
    base = next((base for base in kind.__mro__ if shortest.get(base, prefix) != prefix), None)
    inherited = {field.name for field in msgspec.structs.fields(base)} if base else set()
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in inherited]
    if base:
        table = shortest[base]
        yield f"The keys of [`[{table}]`](#{table.replace('.', '').lower()}){', and:' if fields else '.'}\n"
    if fields:
        yield from _keys(prefix, fields, field_notes(kind), examples)


def _keys(prefix: str, fields: list[Any], notes: dict[str, str], examples: dict[str, str]) -> Iterator[str]:
    for field in fields:
        name = _name(field.type)
        kind = ", ".join(filter(None, (name if name != "string" else "", _default(field))))
        texts = (notes.get(field.name), _example(prefix, field, examples))
        yield f"- `{field.name}`{f' ({kind})' if kind else ''}: {' '.join(filter(None, texts))}"
    yield ""


def _example(prefix: str, field: Any, examples: dict[str, str]) -> str:
    """An example of a key, else of the same key in another table; none for a table, whose section follows."""
    if any(_tables(field.type)):
        return ""
    key = f"{prefix}.{field.name}".lstrip(".")
    found = [text for other, text in examples.items() if other.endswith(f".{field.name}")]
    if not (key in examples or found):
        sys.exit(f"{key} has no example; write one into {ANNOTATED}")
    return examples.get(key) or found[0]


def _examples() -> dict[str, str]:
    """An example of each key: the first that is short, of a bundled profile or else of the annotated one."""
    found: dict[str, str] = {}
    for path in (*sorted(bundled("site_profiles").glob("*.toml")), ANNOTATED):
        for key, value in _values("", Site, tomllib.loads(path.read_text(encoding="utf-8"))):
            text = toml_value(value)
            if len(text) <= LONGEST:
                found.setdefault(key, f"Example: `{text}`")
    return found


def _values(prefix: str, kind: type, data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a profile by their keys, in which NAME is any name of the site's own."""
    for field in msgspec.structs.fields(kind):
        if field.name not in data:
            continue
        key, value = f"{prefix}.{field.name}".lstrip("."), data[field.name]
        inner = next(_tables(field.type), None)
        if inner is None:
            yield key, dict([*value.items()][:1]) if isinstance(value, dict) else value
        else:
            for table in value.values() if inner[1] else (value,):
                yield from _values(key + inner[1], inner[0], table)


def _tables(kind: Any) -> Iterator[tuple[type, str]]:
    """The tables that a value of a type is or holds, and what their name adds to the key's."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind, ""
    elif get_origin(kind) is dict:
        yield from ((inner, ".NAME") for inner, _ in _tables(get_args(kind)[1]))
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _tables(part)


def _name(kind: Any) -> str:
    """A type in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin in (Union, UnionType):
        return " or ".join(_name(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {_plural(parts[0])}"
    if origin is dict:
        return f"table of {_plural(parts[1])}"
    if hasattr(kind, "__metadata__"):
        return _name(kind.__origin__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "table"
    return {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]


def _plural(kind: Any) -> str:
    name = _name(kind)
    return {"table": "tables", "string": "strings", "number": "numbers"}.get(name, name)


def _default(field: Any) -> str:
    value = None if isinstance(field.default, msgspec.Struct) else field.default
    value = None if value is msgspec.NODEFAULT else value
    return (
        f"default `{str(value).lower() if isinstance(value, bool) else value}`"
        if value not in (None, (), "")
        else ""
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
