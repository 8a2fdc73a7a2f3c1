"""The training scripts that come with slurmgen, and those of earlier versions."""

from pathlib import Path

import pytest

from slurmgen.files import BUNDLED_SCRIPTS, REPLACED, bundled, is_bundled
from slurmgen.launchers import LAUNCHERS
from tests.conftest import Run


def test_the_list_of_bundled_scripts_matches_the_folder() -> None:
    programs = [path for path in bundled("training").glob("*.py") if "__main__" in path.read_text()]
    assert {f"training/{path.name}" for path in programs} == BUNDLED_SCRIPTS


def test_the_script_of_a_framework_is_bundled() -> None:
    assert {launcher.bundled_script for launcher in LAUNCHERS.values()} - {None} <= BUNDLED_SCRIPTS


@pytest.mark.parametrize("script", ["training/train_fsdp.py", "training/train_lightning.py"])
def test_a_bundled_script_with_uv_can_be_submitted(script: str, slurmgen: Run) -> None:
    words = ["--python-env", "uv", "--script", script, "--via", "local", "--dry-run"]
    result = slurmgen("submit", *words)
    assert (result.returncode, result.stderr.count("  training/pyproject.toml\n")) == (0, 1)


@pytest.mark.parametrize("command", [["render"], ["submit", "--via", "local", "--dry-run"]])
def test_a_bundled_script_of_an_earlier_version_is_refused_with_its_replacement(
    command: list[str], slurmgen: Run
) -> None:
    reply = slurmgen(*command, "--framework", "ddp", "--script", "./training/mnist_ddp.py")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert reply.stderr == (
        "error: training/mnist_ddp.py is now training/train_ddp.py with the argument --task mnist. "
        "Write `--script training/train_ddp.py -- --task mnist`, or in slurmgen.toml "
        '`script = "training/train_ddp.py"` and `script_args = ["--task", "mnist"]`.\n'
    )


@pytest.mark.parametrize("command", [["render", "--all", "--write"], ["check"]])
def test_the_line_of_a_bundled_script_of_an_earlier_version_is_named(
    command: list[str], tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "slurmgen.toml").write_text('[job.cifar]\nscript = "training/cifar_ddp.py"\n')
    reply = slurmgen(*command)
    assert reply.returncode == 2
    assert "slurmgen.toml:1: job cifar on generic: training/cifar_ddp.py is now training/" in reply.stderr


@pytest.mark.parametrize("command", [["render"], ["submit", "--via", "local", "--dry-run"]])
def test_a_copy_of_a_bundled_script_of_an_earlier_version_is_used(
    command: list[str], tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training/mnist_ddp.py").touch()
    reply = slurmgen(*command, "--script", "training/mnist_ddp.py")
    assert reply.returncode == 0, reply.stderr


@pytest.mark.parametrize("script", sorted(REPLACED))
def test_the_replacement_of_a_bundled_script_is_bundled(script: str) -> None:
    assert script not in BUNDLED_SCRIPTS
    assert is_bundled(REPLACED[script][0])
