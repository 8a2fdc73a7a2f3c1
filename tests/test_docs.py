"""The documentation agrees with the code."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.config.project import Job, Project
from slurmgen.config.user import Personal
from slurmgen.script import _values
from slurmgen.sites.model import Site
from tests.conftest import REPOSITORY, Run


DOCS = REPOSITORY / "docs"


def keys_of(kind: type) -> set[str]:
    """The names of all fields of a struct, at any depth."""
    found: set[str] = set()
    for field in msgspec.structs.fields(kind):
        found.add(field.name)
        for part in (field.type, *getattr(field.type, "__args__", ())):
            if hasattr(part, "__struct_fields__"):
                found |= keys_of(part)
    return found


def words_in_code(page: str) -> set[str]:
    """The words of a page that are formatted as code within its text and tables."""
    text = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))


@pytest.mark.parametrize("kind", [Site, Personal])
def test_the_page_on_sites_lists_every_key(kind: type) -> None:
    assert keys_of(kind) - words_in_code("sites.md") == set()


def test_the_page_on_slurmgen_toml_lists_every_key() -> None:
    assert (keys_of(Project) | keys_of(Job)) - words_in_code("project.md") == set()


def test_the_page_on_templates_lists_every_value() -> None:
    page = (DOCS / "templates.md").read_text()
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(_values(resolve(Request(), load_site("generic"))))


def test_the_example_template_works(tmp_path: Path, slurmgen: Run) -> None:
    page = (DOCS / "templates.md").read_text()
    example = re.search(r"```jinja\n(.*?)```", page, re.DOTALL)
    assert example
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "environment.j2").write_text(example[1])
    assert "\nnvidia-smi --list-gpus\nexport OMP_NUM_THREADS=" in slurmgen("render").stdout


def test_relative_links_have_a_target() -> None:
    for page in [REPOSITORY / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_python_example_of_the_readme_runs() -> None:
    code = re.search(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert code
    shown = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("4 72 72 CPUs per GPU (from the profile of olivia)\n#!/bin/bash\n")


def test_the_toml_examples_of_the_readme_are_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert [tomllib.loads(block) for block in blocks]
    assert [block.split("\n")[0] for block in blocks] == [
        "# slurmgen.toml",
        "# personal.toml",
        "# site_profiles/mycluster.toml",
    ]


def test_the_diagram_of_the_packages_matches_the_code() -> None:
    """If not: python docs/picture.py."""
    drawn = runpy.run_path(str(DOCS / "picture.py"))["dot"]()
    assert drawn == (DOCS / "architecture.dot").read_text()
