"""The projects in examples/: their scripts are current, and their training runs."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from slurmgen import Request, Site
from slurmgen.site_trial import try_scripts
from slurmgen.sites.profiles import load_profile, profile_warnings
from tests.conftest import REPOSITORY, Run
from tests.support.ranks import start

EXAMPLES = REPOSITORY / "examples"
JOBS = [
    (path.parent.name, job)
    for path in sorted(EXAMPLES.glob("*/slurmgen.toml"))
    for job in tomllib.loads(path.read_text())["job"]
]


@pytest.mark.parametrize(("example", "job"), JOBS)
def test_every_job_renders_a_script_without_a_finding(
    example: str, job: str, slurmgen: Run, tmp_path: Path
) -> None:
    site = tomllib.loads((EXAMPLES / example / "slurmgen.toml").read_text())["site"]
    script = slurmgen("render", job, cwd=EXAMPLES / example)
    assert script.returncode == 0, script.stderr
    (tmp_path / "job.sbatch").write_text(script.stdout)
    found = slurmgen("lint", "job.sbatch", "--site", site)
    assert found.returncode == 0, found.stdout


def test_the_checked_in_scripts_are_current(slurmgen: Run) -> None:
    result = slurmgen("check", cwd=EXAMPLES / "checked-in-scripts")
    assert result.returncode == 0, result.stdout


def test_the_annotated_profile_passes_the_strict_checks_and_fits_all_shapes() -> None:
    (path,) = (EXAMPLES / "new-site" / "site_profiles").glob("*.toml")
    assert profile_warnings(path) == []
    assert {trial.result for trial in try_scripts(load_profile(path), Request())} == {"passed"}


def test_the_annotated_profile_sets_every_top_level_key() -> None:
    (path,) = (EXAMPLES / "new-site" / "site_profiles").glob("*.toml")
    stated = tomllib.loads(path.read_text())
    assert set(Site.__struct_fields__) - stated.keys() == set()


@pytest.mark.parametrize(
    ("example", "launcher"),
    [
        ("ddp-daic", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]),
        ("lightning-olivia", []),
    ],
)
def test_the_training_runs(example: str, launcher: list[str], tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / example / "train.py", tmp_path)
    command = [sys.executable, *launcher, "train.py", "--epochs", "2"]
    done = start([(command, {"CUDA_VISIBLE_DEVICES": ""})], tmp_path).ended()
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.pt")) or list(tmp_path.rglob("*.ckpt"))
