"""Write docs/json.md: what each command prints with --json, with an example.

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
"An example for each command, as it printed it; long texts and lists are shortened."
HEAD = """# JSON output

Every command has `--json`, except those listed at the end. stdout then has one object or list of JSON;
messages and progress are on stderr. The output is ASCII; other characters are escaped as `\\uXXXX`.

- After an error stdout is empty, stderr has the line `error: ...`, and the [exit code](cli.md) says what kind
  of error it is. Findings and unknown states are results, not errors: `lint`, `check` and `sites validate`
  print them and exit with 1, `status` with 3, `doctor` with 2 or 3.
- All keys of an object are always there. A value that is unknown or not set is `""` or null for a
  text, and null for a number; the table of each object says which.
- Keys may be added. None is removed, renamed or given another meaning.
- Each command has a JSON Schema in the folder `schemas/output`, which the package installs as
  `slurmgen/schemas/output`.

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
        yield f"Prints {names}; schema: [{file_name(command)}](../schemas/output/{file_name(command)}).\n"
        same = shown.setdefault(OUTPUTS[command], command)
        yield _example(examples[command]) if same == command else f"The same as `slurmgen {same}`.\n"


def _example(printed: Any) -> str:
    return f"```json\n{json.dumps(printed, indent=2)}\n```\n"


def _objects() -> Iterator[str]:
    """A table for each object."""
    structs = {name: kind for kinds in OUTPUTS.values() for name, kind in structs_of(kinds).items()}
    for name, kind in sorted(structs.items()):
        notes = field_notes(kind)
        yield f"### {name}\n\n{_in_json((kind.__doc__ or '').partition(chr(10) * 2)[0])}\n"
        yield "| key | type | meaning |\n|---|---|---|"
        for field in msgspec.structs.fields(kind):
            yield f"| `{field.encode_name}` | {_name(field.type)} | {_in_json(notes.get(field.name, ''))} |"
        yield ""


def _in_json(note: str) -> str:
    """A note of the code in one line, with the word that JSON has for None."""
    return re.sub(r"\bNone\b", "null", " ".join(note.split()))


def _exceptions() -> Iterator[str]:
    yield "## Commands without --json\n"
    yield from (f"- `slurmgen {command}` {reason}." for command, reason in WITHOUT.items())
    yield ""


def _name(kind: Any) -> str:
    """A type in words, with a link to the table of an object."""
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
    names = {str: "string", int: "whole number", float: "number", bool: "true or false", type(None): "null"}
    return names.get(kind, "any value")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
