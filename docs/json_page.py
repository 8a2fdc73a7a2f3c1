"""Write docs/json.md: what each command prints with --json, with examples.

`python docs/json_page.py` writes the page. A test compares it with the code.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from slurmgen.cli import COMMANDS
from slurmgen.cli.schema import OUTPUTS, WITHOUT, file_name, structs_of
from slurmgen.toml import field_notes

PAGE = Path(__file__).with_name("json.md")
EXAMPLES = PAGE.with_name("json_examples.json")
"Examples by command, as it printed them; long texts and lists are shortened."
SHARED = 5
"An object with all the keys of another one extends it if these are at least as many."
HEAD = """# JSON output

Every command has `--json`, except those listed at the end. stdout then has one object or list in ASCII;
messages and progress are on stderr.

- After an error stdout is empty, stderr has the line `error: ...`, and the [exit code](cli.md) says what kind
  of error it is. Findings and unknown states are results, not errors: `lint`, `check` and `sites validate`
  print them and exit with 1, `status` with 3, `doctor` with 2 or 3.
- All keys of an object are always there. A value that is unknown or not set is `""` or null for a
  text, and null for a number; the type says which. A key without a type is a string.
- Keys may be added. None is removed, renamed or given another meaning.
- The JSON Schemas are in `schemas/output`, which the package installs as `slurmgen/schemas/output`.

`python docs/json_page.py` writes this page.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_commands(), "## Objects\n", *_objects(), *_exceptions()])


def _commands() -> Iterator[str]:
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    shown: dict[tuple[Any, ...], str] = {}
    for command in sorted(OUTPUTS, key=lambda name: [*COMMANDS].index(name.partition(" ")[0])):
        names = " or ".join(map(_name, OUTPUTS[command]))
        yield f"## slurmgen {command}\n"
        yield f"Prints {names} ([schema](../schemas/output/{file_name(command)})).\n"
        same = shown.setdefault(OUTPUTS[command], command)
        if same != command:
            yield f"The same as `slurmgen {same}`.\n"
        elif command in examples:
            yield _example(examples[command])


def _example(printed: Any) -> str:
    return f"```json\n{json.dumps(printed, indent=2)}\n```\n"


def _objects() -> Iterator[str]:
    """The keys that each object adds to the object that it extends."""
    structs = {name: kind for kinds in OUTPUTS.values() for name, kind in structs_of(kinds).items()}
    keys = {name: {*_rows(kind)} for name, kind in structs.items()}
    for name, kind in sorted(structs.items()):
        meaning = _in_json((kind.__doc__ or "").partition("\n\n")[0])
        if len(keys[name]) == 1:
            (field,) = msgspec.structs.fields(kind)
            note = _in_json(field_notes(kind).get(field.name, ""))
            yield (
                f"### {name}\n\n{meaning} Its key is `{field.name}`: {_name(field.type)}. {note}".rstrip()
                + "\n"
            )
            continue
        yield f"### {name}\n\n{meaning}\n"
        contained = [other for other in keys if keys[other] < keys[name] and len(keys[other]) >= SHARED]
        inherited: set[str] = set()
        if contained:
            base = max(contained, key=lambda other: len(keys[other]))
            inherited = keys[base]
            yield f"The keys of [{base}](#{base.lower()}), and:\n"
        yield from (row for row in _rows(kind) if row not in inherited)
        yield ""


def _rows(kind: type) -> list[str]:
    """A line for each key of an object."""
    notes = field_notes(kind)
    fields = msgspec.structs.fields(kind)
    kinds = ((each, "" if each.type is str else f" ({_name(each.type)})") for each in fields)
    keys = ((f"- `{each.encode_name}`{kind}", notes.get(each.name)) for each, kind in kinds)
    return [f"{key}: {_in_json(note)}" if note else key for key, note in keys]


def _in_json(note: str) -> str:
    """A note of the code in one line, with the word that JSON has for None."""
    return re.sub(r"\bNone\b", "null", " ".join(note.split()))


def _exceptions() -> Iterator[str]:
    yield "## Commands without --json\n"
    yield from (f"- `slurmgen {command}` {reason}." for command, reason in WITHOUT.items())
    yield ""


def _name(kind: Any) -> str:
    """A type in words, with a link to the keys of an object."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin in (Union, UnionType):
        return " or ".join(map(_name, parts))
    if origin in (tuple, list):
        return f"list of {_name(parts[0])}"
    if origin is dict:
        return f"object of {_name(parts[1])} by name"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    return names.get(kind, "any value")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
