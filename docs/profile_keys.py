"""Write docs/profile-keys.md: every key of a site profile with its type, default and meaning.

`python docs/profile_keys.py` writes the page. A test compares it with the code.
"""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from slurmgen.config.schema import field_notes
from slurmgen.sites.model import Site

PAGE = Path(__file__).with_name("profile-keys.md")
HEAD = """# Keys of a site profile

A profile is a TOML file; see [site profiles](sites.md) for how to write one. A key that is unset is unknown.
`python docs/profile_keys.py` writes this page.
"""
LABELS = {"Count": "whole number", "Limit": "whole number"}


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_table("", Site, {Site})])


def _table(prefix: str, kind: type, seen: set[type]) -> Iterator[str]:
    """A section for a table of the profile, then one for each table within it."""
    fields = msgspec.structs.fields(kind)
    notes = {name: note for base in reversed(kind.__mro__) for name, note in field_notes(base).items()}
    yield f"## `[{prefix}]`\n" if prefix else "## Top level\n"
    if prefix:
        yield f"{(kind.__doc__ or '').splitlines()[0]}\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for field in fields:
        yield f"| `{field.name}` | {_name(field.type)} | {_default(field)} | {notes.get(field.name, '')} |"
    yield ""
    for field in fields:
        for inner, suffix in _tables(field.type):
            yield from _table(f"{prefix}.{field.name}{suffix}".lstrip("."), inner, {*seen, inner})


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
    return {str: "string", int: "whole number", float: "number", bool: "true or false"}[kind]


def _plural(kind: Any) -> str:
    name = _name(kind)
    return {"table": "tables", "string": "strings", "number": "numbers"}.get(name, name)


def _default(field: Any) -> str:
    value = None if isinstance(field.default, msgspec.Struct) else field.default
    value = None if value is msgspec.NODEFAULT else value
    return (
        f"`{str(value).lower() if isinstance(value, bool) else value}`" if value not in (None, (), "") else ""
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
