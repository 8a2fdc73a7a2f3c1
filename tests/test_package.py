"""The wheel that `pip install slurmgen-torch` installs."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.conftest import REPOSITORY

UV = Path(sys.executable).with_name("uv")


def run(*command: object, cwd: Path = REPOSITORY) -> str:
    result = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with only the wheel and its locked core dependencies."""
    folder = tmp_path_factory.mktemp("env")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    install = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    run(*install, "--require-hashes", "-r", REPOSITORY / "requirements" / "core.txt")
    run(*install, "--no-deps", wheel)
    return folder / "bin"


def test_wheel_contains_all_templates_profiles_schemas_and_training_files(wheel: Path) -> None:
    folders = ("templates", "site_profiles", "schemas", "skills", "training", "slurmgen_preflight")
    tracked = run("git", "ls-files", *folders).split()
    carried = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).parts[0] for name in tracked} == set(folders)
    assert {f"slurmgen/{name}" for name in tracked} <= set(carried)


def test_wheel_contains_the_remote_scripts(wheel: Path) -> None:
    tracked = run("git", "ls-files", "slurmgen/remote_scripts/*.sh").split()
    assert len(tracked) >= 2
    assert set(tracked) <= set(zipfile.ZipFile(wheel).namelist())


def test_wheel_contains_the_page_and_the_licences_of_its_libraries(wheel: Path) -> None:
    tracked = run("git", "ls-files", "slurmgen/web/pages", "slurmgen/web/static").split()
    carried = zipfile.ZipFile(wheel)
    assert {Path(name).suffix for name in tracked} >= {".html", ".js", ".css", ".svg", ".txt"}
    assert set(tracked) <= set(carried.namelist())
    (metadata,) = [name for name in carried.namelist() if name.endswith("/METADATA")]
    fields = message_from_bytes(carried.read(metadata))
    licences = "slurmgen/web/static/vendor/LICENSES.txt"
    assert fields.get_all("License-File") == ["LICENSE", licences]
    kinds = set(re.findall(r"^\S+ [\d.]+ \((MIT|0BSD)\)$", carried.read(licences).decode(), re.MULTILINE))
    assert set(str(fields["License-Expression"]).split(" AND ")) == {"Apache-2.0", *kinds}


def test_the_page_of_the_wheel_needs_only_its_own_server(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("web")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    install = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    run(*install, "--constraint", REPOSITORY / "requirements" / "dev.txt", f"{wheel}[web]")
    with serving(folder / "bin" / "slurmgen", tmp_path) as address:
        html = httpx.get(address, timeout=60).text
        found = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', html)
        assert f"{urlsplit(address).path}static/style.css" in found
        replies = {each: httpx.get(urljoin(address, each), timeout=60).status_code for each in found}
    assert replies == dict.fromkeys(found, 200)
    assert {urlsplit(urljoin(address, each)).netloc for each in found} == {urlsplit(address).netloc}


@contextmanager
def serving(slurmgen: Path, folder: Path) -> Iterator[str]:
    """The address of a public page."""
    command = [slurmgen, "web", "--public", "--base-path", "/slurmgen"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout
            assert server.stderr
            address = server.stdout.readline().strip()
            assert server.stderr.readline() == "serving until ^C\n"
            yield address
        finally:
            server.terminate()


def test_wheel_renders_the_same_as_the_checkout(installed: Path, tmp_path: Path) -> None:
    args = ["render", "--framework", "ddp", "--gpus", "4"]
    here = run(sys.executable, "-m", "slurmgen", *args, cwd=tmp_path)
    assert run(installed / "slurmgen", *args, cwd=tmp_path) == here


def test_core_installs_without_torch(installed: Path) -> None:
    probe = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('slurmgen') is not None)"
    assert run(installed / "python", "-I", "-c", probe).split() == ["None", "True"]


def test_every_command_of_the_wheel_starts(installed: Path, tmp_path: Path) -> None:
    from slurmgen.cli import COMMANDS

    for command in COMMANDS:
        run(installed / "slurmgen", command, "--help", cwd=tmp_path)
    assert run(installed / "slurmgen", "--version", cwd=tmp_path).startswith("slurmgen, version ")


def test_the_names_of_the_python_api_exist(installed: Path, tmp_path: Path) -> None:
    code = "import slurmgen; print(all(hasattr(slurmgen, name) for name in slurmgen.__all__))"
    assert run(installed / "python", "-I", "-c", code, cwd=tmp_path) == "True\n"
