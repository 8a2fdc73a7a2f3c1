"""The man pages that `make man` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.cli import COMMANDS
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, REPOSITORY / "docs" / "man_pages.py", folder], check=True)
    return folder


def as_text(page: Path) -> str:
    """A page as `man` shows it in a pipe; any warning is an error."""
    command = ["groff", "-man", "-Tascii", "-P-cbou", "-ww", page]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout


def test_every_command_has_a_page(pages: Path) -> None:
    names = {path.name for path in pages.iterdir()}
    assert {"slurmgen.1", "slurmgen-twin-up.1"} | {f"slurmgen-{name}.1" for name in COMMANDS} <= names


def test_groff_accepts_every_page(pages: Path) -> None:
    for page in pages.iterdir():
        assert as_text(page).startswith(page.stem.upper() + "(1)")


def test_a_page_has_the_options_and_the_examples_of_help(pages: Path) -> None:
    text = as_text(pages / "slurmgen-submit.1")
    assert "SYNOPSIS\n       slurmgen submit [OPTIONS] [JOB] [-- SCRIPT ARGS]\n" in text
    assert "       --dry-run\n" in text
    assert "\n       slurmgen submit train --dry-run\n" in text
    assert "       -h, --help\n" in text


def test_the_main_page_refers_to_the_others(pages: Path) -> None:
    assert "See slurmgen-submit(1) for" in " ".join(as_text(pages / "slurmgen.1").split())
    assert "SEE ALSO\n       slurmgen-twin(1)\n" in as_text(pages / "slurmgen-twin-up.1")
