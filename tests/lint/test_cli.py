"""The command `slurmgen lint`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
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


def test_exit_code_is_0_without_findings(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text(CLEAN)
    result = slurmgen("lint", "a.sbatch")
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 file: nothing found\n", "")


def test_exit_code_is_1_with_findings(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "bad.sbatch")
    assert result.returncode == 1
    assert result.stdout.count("SG110") == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lint"], "Name a file"),
        (["lint", "none.sbatch"], "does not exist"),
        (["lint", "bad.sbatch", "--select", "SG777"], "no lint rule 'SG777'"),
        (["lint", "bad.sbatch", "--site", "nowhere"], "no site 'nowhere'"),
        (["lint", "--explain", "XY1"], "no lint rule 'XY1'"),
        (["lint", "train.py"], "train.py is a Python file without #SBATCH lines, not a batch script"),
        (["lint", "-", "--fix"], "--fix needs a file"),
        (["lint", "bad.sbatch", "--unsafe-fixes"], "--unsafe-fixes needs --fix or --diff"),
    ],
)
def test_exit_code_is_2_for_invalid_usage(slurmgen: Run, bad: Path, args: list[str], message: str) -> None:
    (bad.parent / "train.py").write_text("import torch\n")
    result = slurmgen(*args, input="#!/bin/bash\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_script_is_read_from_standard_input(slurmgen: Run) -> None:
    result = slurmgen("lint", "-", "--format", "json", input=BAD)
    assert result.returncode == 1
    assert [found["code"] for found in json.loads(result.stdout)] == ["SG110"]


def test_select_and_ignore_take_prefixes_of_codes(slurmgen: Run, bad: Path) -> None:
    assert slurmgen("lint", "bad.sbatch", "--ignore", "SG110").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--ignore", "sg2,SG110").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--select", "SG2").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--select", "SG1").returncode == 1


def test_settings_of_the_project_apply_unless_overridden(slurmgen: Run, bad: Path) -> None:
    (bad.parent / "slurmgen.toml").write_text('[lint]\nignore = ["SG110"]\n')
    assert slurmgen("lint", "bad.sbatch").returncode == 0
    assert slurmgen("lint", "bad.sbatch", "--ignore", "SG2").returncode == 1


def test_fix_changes_only_the_faults(slurmgen: Run, bad: Path) -> None:
    bad.write_bytes(BAD.encode() + b"# \xff\xfe\n")
    assert slurmgen("lint", "bad.sbatch", "--fix", "--unsafe-fixes").returncode == 0
    assert bad.read_bytes() == BAD.replace("24:00", "24:00:00").encode() + b"# \xff\xfe\n"


def test_fix_without_unsafe_fixes_leaves_what_a_script_does(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "--fix")
    left = "left bad.sbatch:2:16: SG110: its fix changes what runs: --unsafe-fixes applies it\n"
    assert (result.returncode, result.stderr) == (1, left)
    assert "1 fixable with --fix --unsafe-fixes" in result.stdout
    assert bad.read_text() == BAD


def test_a_file_that_is_too_large_does_not_stop_the_report_on_the_others(slurmgen: Run, bad: Path) -> None:
    (bad.parent / "large.sbatch").write_text("#!/bin/bash\n" + "#" * 1_000_000)
    result = slurmgen("lint", "large.sbatch", "bad.sbatch")
    assert result.returncode == 2
    assert result.stderr.startswith("error: large.sbatch cannot be read: it is larger than 1,000,000 bytes")
    assert "bad.sbatch:2:16: error SG110" in result.stdout


def test_fix_reports_its_changes_and_the_findings_that_remain(slurmgen: Run, bad: Path) -> None:
    bad.write_text(BAD.replace("\n", "\r\n"))
    result = slurmgen("lint", "bad.sbatch", "--fix")
    assert bad.read_text() == BAD
    assert result.stderr.startswith("fixed bad.sbatch:1:12: SG102 3 lines with Windows line endings")
    assert "SG110" in result.stdout
    assert "SG102" not in result.stdout


PATCHED = {
    "tabs": BAD.replace("hostname", "if true; then\n\thostname\nfi"),
    "no final newline": BAD.rstrip("\n"),
    "windows line endings": BAD.replace("\n", "\r\n"),
    "no newline at all": "#SBATCH --time=24:00",
    "no-break spaces": BAD.replace("hostname", "hostname  # all\xa0nodes\u3000here"),
    "no shebang": BAD.removeprefix("#!/bin/bash\n"),
}


@pytest.mark.parametrize("name", ["job.sbatch", "sub/my job.sbatch"])
@pytest.mark.parametrize("kind", PATCHED)
def test_git_applies_the_patch_of_diff(kind: str, name: str, slurmgen: Run, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(PATCHED[kind].encode())
    command = [sys.executable, "-m", "slurmgen", "lint", name, "--diff", "--unsafe-fixes"]
    diff = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=False).stdout
    fixed = tmp_path / "fixed.sbatch"
    fixed.write_bytes(PATCHED[kind].encode())
    slurmgen("lint", "fixed.sbatch", "--fix", "--unsafe-fixes")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, check=True)
    assert path.read_bytes() == fixed.read_bytes() != PATCHED[kind].encode()


def test_a_note_is_opt_in(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text(
        "#!/bin/bash\n#SBATCH -N1 --gres=gpu:2 -c8 -t 1:0:0\ntorchrun --standalone --nproc-per-node=2 t.py\n"
    )
    assert slurmgen("lint", "a.sbatch").returncode == 0
    assert slurmgen("lint", "a.sbatch", "--select", "SG2").returncode == 0
    assert "note SG206" in slurmgen("lint", "a.sbatch", "--select", "SG206").stdout
    assert "note SG206" in slurmgen("lint", "a.sbatch", "--notes").stdout


def test_lines_with_one_cause_are_one_finding(slurmgen: Run, tmp_path: Path) -> None:
    late = "".join(f"#SBATCH --comment={i}\n" for i in range(24))
    (tmp_path / "a.sbatch").write_text("#!/bin/bash\nset -e\n" + late)
    (found,) = json.loads(slurmgen("lint", "a.sbatch", "--format", "json").stdout)
    assert (found["code"], found["line"], found["fixable"]) == ("SG103", 3, False)
    assert found["message"].endswith("(also on 23 further lines, up to 26)")


def test_diff_does_not_change_the_file(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "--diff", "--unsafe-fixes")
    assert result.returncode == 1
    assert result.stdout.splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " #!/bin/bash",
        "-#SBATCH --time=24:00",
        "+#SBATCH --time=24:00:00",
        " hostname",
    ]
    assert bad.read_text() == BAD


def test_explain_prints_only_the_rules_of_a_prefix(slurmgen: Run) -> None:
    pages = slurmgen("lint", "--explain", "SG1").stdout
    assert "# SG101" in pages
    assert "# SG801" not in pages
    assert "# SG801" in slurmgen("lint", "--explain", "SG801").stdout


def test_blanks_around_the_equals_sign_of_a_partition_are_no_refusal(slurmgen: Run, tmp_path: Path) -> None:
    header = "#SBATCH --nodes=1\n#SBATCH --gpus-per-node=1\n#SBATCH --partition{}\n"
    for partition, codes in ((" = part", []), ("=part", ["SG910"])):
        (tmp_path / "site_profiles").mkdir(exist_ok=True)
        (tmp_path / "site_profiles" / "lab.toml").write_text(
            "[node]\ngpus = 4\n[partitions.part]\ndefault = true\n[when.w]\nnodes = 'one'\nrefuse = 'no'\n"
        )
        text = f"#!/bin/bash\n{header.format(partition)}srun python train.py\n"
        reply = slurmgen("lint", "-", "--site", "lab", "--select", "SG910", "--format", "json", input=text)
        assert [found["code"] for found in json.loads(reply.stdout)] == codes, reply.stderr


def test_diff_counts_the_fixes_that_it_leaves_out(slurmgen: Run, bad: Path) -> None:
    result = slurmgen("lint", "bad.sbatch", "--diff")
    assert (result.stdout, result.stderr) == ("", "1 more fix changes what runs: add --unsafe-fixes\n")
    assert slurmgen("lint", "bad.sbatch", "--diff", "--unsafe-fixes").stderr == ""


def test_explain_prints_the_page_of_a_rule(slurmgen: Run) -> None:
    result = slurmgen("lint", "--explain", "sg110")
    assert result.returncode == 0
    assert result.stdout.startswith("# SG110 time-form\n")


def test_a_training_script_next_to_the_job_is_read(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("from lightning import Trainer\nTrainer(devices=4)\n")
    (tmp_path / "a.sbatch").write_text(
        "#!/bin/bash\n#SBATCH -N1 --ntasks-per-node=1 --gres=gpu:4 -c8 -t 1:0:0\nsrun -c8 python fit.py\n"
    )
    assert "SG701" in slurmgen("lint", "a.sbatch").stdout


def test_the_package_is_callable() -> None:
    assert [report.rule.code for report in package.lint(BAD)] == ["SG110"]
    assert [report.rule.code for report in package.lint(BAD, site="daic")] == ["SG902", "SG110"]
    assert package.lint(BAD, package.load_site("generic"))[0].rule.severity == "error"


def test_fix_changes_no_file_through_a_link(slurmgen: Run, bad: Path) -> None:
    (bad.parent / "link.sbatch").symlink_to(bad)
    assert slurmgen("lint", "link.sbatch").returncode == 1
    result = slurmgen("lint", "link.sbatch", "--fix", "--unsafe-fixes")
    assert (result.returncode, result.stdout) == (2, "")
    assert "error: link.sbatch cannot be written: it is a link to " in result.stderr
    assert bad.read_text() == BAD


def test_fix_keeps_the_permissions_of_the_file(slurmgen: Run, bad: Path) -> None:
    bad.chmod(0o750)
    assert slurmgen("lint", "bad.sbatch", "--fix", "--unsafe-fixes").returncode == 0
    assert bad.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "a link leads to /dev/zero, out of "),
        (lambda path: path.write_text("#" * 1_000_001), "it is larger than 1,000,000 bytes"),
    ],
)
def test_special_files_are_rejected_at_once(
    make: Callable[[Path], None], reason: str, slurmgen: Run, tmp_path: Path
) -> None:
    make(tmp_path / "a.sbatch")
    result = slurmgen("lint", "a.sbatch")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"error: a.sbatch cannot be read: {reason}" in result.stderr


def test_standard_input_has_a_limit(slurmgen: Run) -> None:
    result = slurmgen("lint", "-", input="#" * 1_000_001)
    assert (result.returncode, "- cannot be read: it is larger than" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        f"x = {'-' * 100_000}1",
        f"Trainer(devices={'0x' + 'f' * 6000})",
        f"n = 0x{'f' * 6000}\nTrainer(devices=n)",
        "Trainer(devices='²')",
        f"Trainer(devices='{'1' * 5000}')",
        "x = '\\d'\n1if x else 2",
    ],
)
def test_any_training_script_is_read_or_skipped(text: str, slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(f"from lightning import Trainer\n{text}\n")
    (tmp_path / "a.sbatch").write_text(
        "#!/bin/bash\n#SBATCH -N1 --ntasks-per-node=1 --gres=gpu:1 -c8 -t 1:0:0\nsrun -c8 python fit.py\n"
    )
    result = slurmgen("lint", "a.sbatch")
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 file: nothing found\n", "")


def test_a_profile_next_to_the_script_is_found_without_a_slurmgen_toml(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles" / "mine.toml").write_text('name = "mine"')
    (tmp_path / "a.sbatch").write_text(CLEAN)
    assert slurmgen("render", "--site", "mine").returncode == 0
    reply = slurmgen("lint", "a.sbatch", "--site", "mine")
    assert (reply.returncode, reply.stderr) == (0, "")
