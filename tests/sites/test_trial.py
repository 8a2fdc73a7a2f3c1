"""`slurmgen sites test`: six jobs of a profile, and one that runs on its twin."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slurmgen import Request, load_site
from slurmgen.files import bundled
from slurmgen.site_trial import try_scripts
from slurmgen.sites.nodes import SIX_SHAPES
from tests.conftest import Run

NODE = "[node]\ngpus = 2\ncpus = 8\nmemory = '32G'\n"


def write(folder: Path, text: str, name: str = "lab") -> None:
    """A profile of the project."""
    (folder / "site_profiles").mkdir(exist_ok=True)
    (folder / "site_profiles" / f"{name}.toml").write_text(text)


def results(output: str) -> dict[str, str]:
    """The result of each shape."""
    rows = (re.match(r"(.*?)  +(\w+)", line) for line in output.splitlines())
    return {row[1]: row[2] for row in rows if row}


@pytest.fixture
def tried(tmp_path: Path, slurmgen: Run) -> Run:
    """Runs `slurmgen sites test lab --no-twin` for a profile with these lines."""

    def run(text: str, *options: str) -> "subprocess.CompletedProcess[str]":
        write(tmp_path, f"{NODE}{text}")
        return slurmgen("sites", "test", "lab", "--no-twin", *options)

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in bundled("site_profiles").glob("*.toml")))
def test_a_bundled_site_passes_without_a_twin(name: str) -> None:
    trials = try_scripts(load_site(name), Request())
    assert [trial for trial in trials if trial.result == "failed"] == []
    assert len(trials) == len(SIX_SHAPES)


def test_a_shape_beyond_a_limit_is_refused_with_the_limit(tried: Run) -> None:
    done = tried("[partitions.gpu]\ndefault = true\nmax_nodes = 1\n")
    assert done.returncode == 0
    assert results(done.stdout)["ddp on two nodes"] == "refused"
    assert "2 nodes exceed the limit of partition gpu: 1 per job" in done.stdout


def test_what_a_job_must_name_is_a_failure_and_not_a_refusal(tried: Run) -> None:
    types = "[gpu]\ntype_required = true\n[gpu.types.a]\n[gpu.types.b]\n"
    done = tried(types)
    assert done.returncode == 1
    assert set(results(done.stdout).values()) == {"failed"}
    assert "Add --gpu-type, one of a, b." in done.stdout
    assert tried(types, "--gpu-type", "b").returncode == 0


def test_a_site_that_refuses_all_shapes_fails(tried: Run) -> None:
    done = tried("[limits]\nmin_nodes = 5\n")
    assert set(results(done.stdout).values()) == {"refused"}
    assert done.returncode == 1


def test_a_finding_of_the_linter_fails_the_shape(tried: Run) -> None:
    done = tried("[launch]\nbefore = ['export MASTER_ADDR=localhost']\n")
    assert done.returncode == 1
    assert re.search(r"ddp on two nodes +failed +SG\d+ in line \d+: ", done.stdout)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck")
def test_a_finding_of_shellcheck_fails_the_shape(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, f"{NODE}[launch]\nbefore = ['echo $(ls *.x)']\n")
    (tmp_path / ".shellcheckrc").write_text("disable=SC2046\n")  # a file of the project hides no finding
    done = slurmgen("sites", "test", "lab", "--no-twin")
    assert done.returncode == 1
    assert re.search(r"failed +shellcheck, line \d+", done.stdout)


def test_the_shapes_fit_the_nodes_of_the_requested_partition(tried: Run) -> None:
    small = "[partitions.small]\nmax_nodes = 1\nnode = { gpus = 1 }\n"
    done = tried(f"[partitions.a]\ndefault = true\n{small}", "--partition", "small")
    assert results(done.stdout)["ddp on one node"] == "passed"
    assert results(done.stdout)["ddp on two nodes"] == "refused"


def test_partitions_that_are_not_tried_are_noted(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, f"{NODE}[partitions.a]\ndefault = true\n[partitions.b]\n[partitions.c]\nmax_gpus = 0\n")
    note = "note: not tried without --partition NAME: b\n"
    assert note in slurmgen("sites", "test", "lab", "--no-twin").stderr
    assert note not in slurmgen("sites", "test", "lab", "--no-twin", "--partition", "b").stderr


def test_a_missing_shellcheck_is_noted(slurmgen: Run, tmp_path: Path) -> None:
    done = slurmgen("sites", "test", "generic", "--no-twin", env=os.environ | {"PATH": str(tmp_path)})
    assert done.returncode == 0
    assert "shellcheck is not installed" in done.stderr


def test_without_slurm_the_table_comes_before_the_error(slurmgen: Run, tmp_path: Path) -> None:
    done = slurmgen("sites", "test", "generic", env=os.environ | {"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert len(results(done.stdout)) == len(SIX_SHAPES)
    assert done.stderr.splitlines()[-1].endswith("Or add --no-twin.")


def test_a_job_runs_on_the_twin_which_is_then_stopped(
    tmp_path: Path, slurmgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "elsewhere")
    write(tmp_path, f"{NODE}[partitions.gpu]\ndefault = true\nmax_time = '1-0'\n[account]\nrequired = true\n")
    done = slurmgen("sites", "test", "lab", "--twin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(results(done.stdout).values()) == {"passed"}
    assert "4 ranks on 2 nodes of the twin" in done.stdout
    assert slurmgen("twin", "status").stdout == "no twin runs\n"


@pytest.mark.parametrize("extends", [False, True])
def test_shell_lines_of_a_project_run_only_with_twin(
    tmp_path: Path, slurmgen: Run, config_dir: Path, extends: bool
) -> None:
    """Of the profile itself, or of one that the user's own profile extends."""
    write(tmp_path, f"{NODE}[launch]\nbefore = ['touch {tmp_path}/ran']\n", "base" if extends else "daic")
    if extends:
        (config_dir / "site_profiles").mkdir(parents=True)
        (config_dir / "site_profiles" / "daic.toml").write_text("extends = 'base'\n")
    done = slurmgen("sites", "test", "daic")
    assert not (tmp_path / "ran").exists()
    assert set(results(done.stdout)) == set(results(slurmgen("sites", "test", "daic", "--no-twin").stdout))
    assert "comes from the project" in done.stderr
    assert "add --twin" in done.stderr


def test_a_profile_of_the_user_is_tried_on_a_twin(tmp_path: Path, slurmgen: Run, config_dir: Path) -> None:
    write(config_dir, NODE, "mine")
    write(tmp_path, NODE)
    done = slurmgen("sites", "test", "mine", env=os.environ | {"PATH": str(tmp_path)})
    assert done.stderr.splitlines()[-1].endswith("Or add --no-twin.")


def test_what_slurm_refuses_on_the_twin_is_a_failure(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, f"{NODE}[sbatch]\nreservation = 'mine'\n")
    done = slurmgen("sites", "test", "lab", "--twin")
    assert done.returncode == 1
    assert set(results(done.stdout).values()) == {"failed"}
    assert "reservation" in done.stdout


def test_a_twin_that_runs_is_used_and_keeps_running(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, NODE)
    try:
        assert slurmgen("twin", "up", "--site", "lab").returncode == 0
        done = slurmgen("sites", "test", "lab", "--twin")
        assert done.returncode == 0, done.stdout
        assert slurmgen("twin", "status", "--site", "lab").returncode == 0
    finally:
        slurmgen("twin", "down", "--site", "lab")
