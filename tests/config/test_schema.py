"""The JSON Schemas with which editors complete keys."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import slurmgen.config.project
from slurmgen.config.schema import SCHEMAS, schema_text
from slurmgen.files import bundled
from slurmgen.status.job import Job as LedgerJob
from tests.config.test_project import PERSONAL, PROJECT
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "schemas"


@cache
def validator(name: str) -> Any:
    """What an editor does with a checked-in schema."""
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_checked_in_schema_is_current(name: str) -> None:
    """If not: python -m slurmgen.config.schema."""
    assert (FOLDER / name).read_text(encoding="utf-8") == schema_text(name)


def test_a_struct_of_the_same_name_elsewhere_does_not_matter() -> None:
    assert LedgerJob.__name__ == slurmgen.config.project.Job.__name__
    assert (FOLDER / "slurmgen.json").read_text(encoding="utf-8") == schema_text("slurmgen.json")


@pytest.mark.parametrize("path", sorted(bundled("site_profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_a_bundled_profile_fits_its_schema(path: Path) -> None:
    validator("site.json").validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize(("name", "text"), [("slurmgen.json", PROJECT), ("personal.json", PERSONAL)])
def test_a_valid_file_fits_its_schema(name: str, text: str) -> None:
    validator(name).validate(tomllib.loads(text))


@pytest.mark.parametrize(("name", "text"), [("slurmgen.json", "x = 1"), ("site.json", "[gpu]\nx = 1")])
def test_an_unknown_key_does_not_fit(name: str, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator(name).validate({"name": "x", **tomllib.loads(text)})


def test_fields_are_described() -> None:
    schema = validator("site.json").schema
    assert "InfiniBand" in schema["$defs"]["Rendezvous"]["properties"]["suffix"]["description"]
