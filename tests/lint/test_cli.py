"""`slurmgen lint` as a person runs it."""

import json
from pathlib import Path

import pytest

import slurmgen as package
from tests.conftest import Run

CLEAN = "#!/bin/bash\n#SBATCH --time=01:00:00\nhostname\n"
BAD = "#!/bin/bash\n#SBATCH --time=24:00\nhostname\n"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.sbatch"
    path.write_text(BAD)
    return path


def test_clean_is_0(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text(CLEAN)
    result = slurmgen("lint", "a.sbatch")
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 file: nothing found\n", "")


def test_findings_are_1(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "bad.sbatch")
    assert result.returncode == 1
    assert result.stdout.count("SG110") == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["lint"], "Name a file"),
        (["lint", "none.sbatch"], "does not exist"),
        (["lint", "bad.sbatch", "--select", "SG777"], "no lint rule 'SG777'"),
        (["lint", "bad.sbatch", "--site", "nowhere"], "no site 'nowhere'"),
        (["lint", "--explain", "XY1"], "no lint rule 'XY1'"),
        (["lint", "-", "--fix"], "--fix needs a file"),
    ],
)
def test_usage_is_2(slurmgen: Run, bad: Path, args: list[str], says: str) -> None:
    result = slurmgen(*args, input="#!/bin/bash\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_standard_input(slurmgen: Run) -> None:
    result = slurmgen("lint", "-", "--format", "json", input=BAD)
    assert result.returncode == 1
    assert [found["code"] for found in json.loads(result.stdout)] == ["SG110"]


def test_select_and_ignore(slurmgen: Run, bad: Path) -> None:
    assert slurmgen("lint", "bad.sbatch", "--ignore", "SG110").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--ignore", "sg2,SG110").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--select", "SG2").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--select", "SG1").returncode == 1


def test_settings_of_the_project(slurmgen: Run, bad: Path) -> None:
    (bad.parent / "slurmgen.toml").write_text('[lint]\nignore = ["SG110"]\n')
    assert slurmgen("lint", "bad.sbatch").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--ignore", "SG2").returncode == 1


def test_fix_changes_the_file_and_no_more(slurmgen: Run, bad: Path) -> None:
    bad.write_bytes(BAD.encode() + b"# \xff\xfe\n")
    assert slurmgen("lint", "bad.sbatch", "--fix").returncode == 0
    assert bad.read_bytes() == BAD.replace("24:00", "24:00:00").encode() + b"# \xff\xfe\n"


def test_diff_changes_nothing(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "--diff")
    assert result.returncode == 1
    assert result.stdout.splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " #!/bin/bash",
        "-#SBATCH --time=24:00",
        "+#SBATCH --time=24:00:00",
        " hostname",
    ]
    assert bad.read_text() == BAD


def test_explain(slurmgen: Run) -> None:
    result = slurmgen("lint", "--explain", "sg110")
    assert result.returncode == 0
    assert result.stdout.startswith("# SG110 time-form\n")


def test_the_training_script_is_found_beside_the_job(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("from lightning import Trainer\nTrainer(devices=4)\n")
    (tmp_path / "a.sbatch").write_text(
        "#!/bin/bash\n#SBATCH -N1 --ntasks-per-node=1 --gres=gpu:4 -c8 -t 1:0:0\nsrun -c8 python fit.py\n"
    )
    assert "SG701" in slurmgen("lint", "a.sbatch").stdout


def test_the_package_is_the_function() -> None:
    assert [report.rule.code for report in package.lint(BAD)] == ["SG110"]
    assert [report.rule.code for report in package.lint(BAD, site="daic")] == ["SG902", "SG110"]
    assert package.lint(BAD, package.load_site("generic"))[0].rule.severity == "error"


def test_a_profile_beside_the_script_is_found_without_a_slurmgen_toml(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles" / "mine.toml").write_text('name = "mine"')
    (tmp_path / "a.sbatch").write_text(CLEAN)
    assert slurmgen("render", "--site", "mine").returncode == 0
    reply = slurmgen("lint", "a.sbatch", "--site", "mine")
    assert (reply.returncode, reply.stderr) == (0, "")
