"""The wheel that `pip install slurmgen-torch` installs."""

import subprocess
import sys
import zipfile
from pathlib import Path

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
    tracked = run("git", "ls-files", "slurmgen/jobs/remote_scripts/*.sh").split()
    assert len(tracked) >= 2
    assert set(tracked) <= set(zipfile.ZipFile(wheel).namelist())


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
