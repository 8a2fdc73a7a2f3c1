"""The package as its users import it: its names, its types, and what the import costs."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import slurmgen
from tests.conftest import REPOSITORY

USER = """
from collections.abc import Iterator
from pathlib import Path
import slurmgen
from slurmgen import JobSpec, Observer, Plan, Record, Report, Results, SlurmgenError
from slurmgen import cancel, fetch, follow, lint_script, load_job, logs, render, resolve, status, submit, wait

class Printer(Observer):
    def connected(self, where: str, entry: Record) -> None: ...

job: JobSpec = load_job("train", gpus=4)
plan: Plan = resolve(job.request, job.site)
text: str = render(plan)
record: Record = submit(job, via="local", observer=Printer())
report: Report = status(record)
reports: list[Report] = wait([record, "last", 12], timeout=60)
ended: Report = cancel(12, site="daic")
parts: Iterator[str] = logs("last", start=7)
followed: Report = follow(record, print)
results: Results = fetch(record, to="results", only=["*.pt"])
paths: tuple[Path, ...] = results.paths
codes: list[str] = [finding.rule.code for finding in lint_script(text, "daic")]
try:
    state: str = report.state
except SlurmgenError as error:
    hint: str = error.hint
release: str = slurmgen.__version__
"""


def mypy(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "user.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", "user.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_public_name_exists_and_is_listed_by_dir() -> None:
    assert all(hasattr(slurmgen, name) for name in slurmgen.__all__)
    assert set(slurmgen.__all__) <= set(dir(slurmgen))
    assert sorted(slurmgen.__all__) == slurmgen.__all__


def test_the_public_names_are_those_of_the_page() -> None:
    page = (REPOSITORY / "docs" / "api.md").read_text()
    assert [name for name in slurmgen.__all__ if not re.search(rf"`(slurmgen\.)?{name}`", page)] == []


def test_every_error_is_a_slurmgen_error() -> None:
    errors = [getattr(slurmgen, name) for name in slurmgen.__all__ if name.endswith(("Error", "Failed"))]
    assert len(errors) == 10
    assert all(issubclass(error, slurmgen.SlurmgenError) for error in errors)


def test_the_version_is_that_of_the_distribution() -> None:
    assert slurmgen.__version__ == version("slurmgen-torch")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        slurmgen.nosuch  # noqa: B018


def test_the_types_are_visible_to_strict_users(tmp_path: Path) -> None:
    result = mypy(USER, tmp_path)
    assert result.returncode == 0, result.stdout
    wrong = mypy("import slurmgen\nx: int = slurmgen.status('last')\nslurmgen.submit(3)\n", tmp_path)
    assert wrong.stdout.count("error: ") == 2, wrong.stdout


def test_the_import_loads_no_other_module() -> None:
    code = "import sys, slurmgen; print(*[name for name in sys.modules if name.startswith('slurmgen')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "slurmgen\n"
