"""JSON Schemas of profiles and of slurmgen.toml, so that an editor completes their keys.

`python -m slurmgen.config.schema` writes them to schemas/; a test keeps them current.
"""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec

from slurmgen.config.project import Project
from slurmgen.config.user import Personal
from slurmgen.sites.model import Site
from slurmgen.toml import field_notes

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMAS: dict[str, tuple[Any, str]] = {
    "site.json": (Site, "A slurmgen site profile"),
    "slurmgen.json": (Project, "slurmgen.toml"),
    "personal.json": (dict[str, Personal], "personal.toml of slurmgen, by site"),
}


def schema_text(file_name: str) -> str:
    """The text of a schema file."""
    kind, title = SCHEMAS[file_name]
    schema = msgspec.json.schema(kind)
    structs = structs_in(kind)
    for name, definition in schema.get("$defs", {}).items():
        describe(definition, structs[name])
    head = {"$schema": DIALECT, "title": title}
    # JSON Schema uses the patterns of ECMA-262, in which `$` is the end of the text.
    return json.dumps(head | schema, indent=2).replace(r"\\Z", "$") + "\n"


def structs_in(kind: Any) -> dict[str, type]:
    """The structs that a type consists of, by name."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        types, structs = [field.type for field in msgspec.structs.fields(kind)], {kind.__name__: kind}
    else:
        types, structs = list(get_args(kind)), {}
    return {name: found for each in types for name, found in structs_in(each).items()} | structs


def describe(definition: dict[str, Any], kind: type) -> None:
    """Put the string below each field of the class into its schema."""
    for name, text in field_notes(kind).items():
        if name in definition.get("properties", {}):
            definition["properties"][name]["description"] = text


if __name__ == "__main__":
    for file_name in SCHEMAS:
        Path("schemas", file_name).write_text(schema_text(file_name), encoding="utf-8")
