"""`slurmgen submit FILE`: a batch script of the user's own is submitted as it is, exactly once."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.ledger.ledger import Ledger
from slurmgen.status.job import LOG_PATTERN, log_path
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import WAY, Machine, machine
from tests.support.programs import write_programs
from tests.support.twins import Testbed

__all__ = ["machine"]

SCRIPT = b"""#!/bin/bash
#SBATCH --job-name="my run" --output=logs/%x-%6j.txt
#SBATCH -e logs/%J.err --comment "for ada"
#SBATCH --time=00:05:00
#SBATCH --nodes=1
# caf\xe9, which is not UTF-8
cat data.txt $0
echo problem >&2
echo made > result.txt
"""


def written(folder: Path, text: bytes = SCRIPT, name: str = "own.sbatch") -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(text)
    return name


def header(*options: str) -> bytes:
    lines = ["#!/bin/bash", "#SBATCH --time=00:05:00", *(f"#SBATCH {option}" for option in options), "true\n"]
    return "\n".join(lines).encode()


@pytest.fixture
def refused(machine: Machine) -> Machine:
    machine.answers("sbatch", "touch ~/submitted; echo 12")
    return machine


def test_a_killed_submission_is_repeated_as_the_same_job_with_the_same_bytes(
    slurmgen: Run, testbed: Testbed, tmp_path: Path
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project, home):
        folder.mkdir()
    (project / "data.txt").write_text("the data\n")
    script = written(project, name="slurm/own.sbatch")
    sbatch = subprocess.check_output(["which", "sbatch"], env=testbed.environ, text=True).strip()
    kill = 'kill -KILL "$(<~/client)" 2>/dev/null'
    wrapper = write_programs(tmp_path / "bin", {"sbatch": f'{kill}\nexec {sbatch} "$@"'}, "#!/bin/bash")
    environ = {**testbed.environ, "HOME": str(home), "PATH": f"{wrapper}:{testbed.environ['PATH']}"}
    way = ["submit", script, "--site", "generic", "--via", "local"]
    start = f'echo $$ > ~/client; exec {sys.executable} -m slurmgen "$@"'
    words = ["bash", "-c", start, "bash", *way]
    killed = subprocess.run(words, cwd=project, env=environ, capture_output=True)
    assert killed.returncode == -signal.SIGKILL

    again = slurmgen(*way, cwd=project, env=environ)
    assert again.returncode == 0, again.stderr
    assert "is the earlier submission" in again.stderr
    job = again.stdout.strip()
    assert slurmgen("wait", job, cwd=project, env=environ).returncode == 0
    jobs = testbed.run("squeue", "--noheader", "--states=all", "--name=my run", "--format=%A %k")
    assert [line.partition(" slurmgen:")[0] for line in jobs.splitlines()] == [f"{job} for ada"]

    log = subprocess.run(
        [sys.executable, "-m", "slurmgen", "logs", job], cwd=project, env=environ, capture_output=True
    )
    assert log.stdout == b"the data\n" + SCRIPT
    (run,) = (home / "slurmgen/project/runs").iterdir()
    assert (run / f"logs/my run-{job.zfill(6)}.txt").read_bytes() == log.stdout
    assert slurmgen("logs", job, "--stderr", cwd=project, env=environ).stdout == "problem\n"
    assert f"job {job} (my run) is COMPLETED" in slurmgen("status", job, cwd=project, env=environ).stdout
    fetched = slurmgen("fetch", job, "--to", str(tmp_path / "got"), cwd=project, env=environ)
    assert fetched.returncode == 0, fetched.stderr
    files = {str(p.relative_to(tmp_path / "got")) for p in (tmp_path / "got").rglob("*") if p.is_file()}
    assert {name for name in files if "logs/" not in name} == {"result.txt"}


def test_the_script_of_a_dry_run_is_the_file(refused: Machine) -> None:
    written(refused.project)
    words = [sys.executable, "-m", "slurmgen", "submit", "own.sbatch", *WAY, "--dry-run"]
    reply = subprocess.run(words, cwd=refused.project, env=refused.environ, capture_output=True, check=True)
    assert reply.stdout == SCRIPT
    shown = json.loads(refused.slurmgen("submit", "own.sbatch", *WAY, "--dry-run", "--json")[1])
    assert shown["files"] == ["own.sbatch", "train.py"]


def test_an_error_of_the_linter_refuses_the_script_and_no_lint_submits_it(refused: Machine) -> None:
    written(refused.project, header("--cpu-per-task=3"))
    code, out, err = refused.slurmgen("submit", "own.sbatch", *WAY)
    assert (code, out) == (1, "")
    assert "own.sbatch:3:" in err
    assert "error: own.sbatch has 1 error, so it is not submitted." in err
    assert not (refused.home / "submitted").exists()
    assert refused.slurmgen("submit", "own.sbatch", *WAY, "--no-lint")[:2] == (0, "12\n")


def test_a_warning_of_the_linter_is_printed_and_a_log_folder_is_made(refused: Machine) -> None:
    written(refused.project, header("--output=logs/all.txt", "--gres=gpu:2"))
    code, _, err = refused.slurmgen("submit", "own.sbatch", *WAY)
    assert code == 0
    assert "warning SG" in err
    assert "SG112" not in err
    assert len(list(refused.home.glob("slurmgen/project/runs/*/logs"))) == 1


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--wait", "own.sbatch:3: --wait is not possible: sbatch would wait for the end of the job"),
        ("--test-only", "Use `slurmgen submit --test-only`"),
        ("--wrap=x", "it replaces the script"),
        ("-Q", "sbatch would not print the id"),
        ("--chdir=/data", "--chdir=/data is not possible: the job starts in its own copy of the project"),
        ("--nodes=1\n#SBATCH hetjob", "is a heterogeneous job"),
    ],
)
def test_an_option_that_contradicts_a_submission_is_refused(refused: Machine, option: str, why: str) -> None:
    written(refused.project, header(option))
    code, _, err = refused.slurmgen("submit", "own.sbatch", *WAY, "--no-lint")
    assert (code, why in err) == (2, True), err
    assert not (refused.home / "submitted").exists()


@pytest.mark.parametrize(
    "words", [["--container", "a.sif"], ["--env", "A=b"], ["--replace-args"], ["--", "--epochs", "2"]]
)
def test_an_option_of_a_job_has_no_place_in_a_script(refused: Machine, words: list[str]) -> None:
    written(refused.project)
    code, _, err = refused.slurmgen("submit", "own.sbatch", *WAY, *words)
    assert (code, "own.sbatch runs as it is: " in err) == (2, True)


TORCHRUN = header("--nodes=1", "--gpus-per-node=a100:2", "--mem-per-cpu=2G").replace(
    b"true", b"torchrun --standalone --nproc-per-node=2 train.py"
)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--time", "1:00:00", "--partition", "big"], "--partition=big --time=1:00:00"),
        (["--gpu-type", "h100"], "--gpus-per-node=h100:2"),
        (["--account", "team a", "--exclude", "n1=slow"], "'--account=team a' --exclude=n1"),
        (["--mail", "end", "--sbatch", "hold"], "--hold --mail-type=END"),
        (["--mail", "none"], "--mail-type=NONE"),
        (["--mail-user", "ada@example.org"], "--mail-user=ada@example.org"),
        (["--sbatch", "mem-per-cpu=3G"], "--mem-per-cpu=3G"),
    ],
)
def test_options_of_sbatch_override_the_header(refused: Machine, words: list[str], options: str) -> None:
    written(refused.project, TORCHRUN)
    code, out, err = refused.slurmgen("submit", "own.sbatch", *WAY, *words, "--dry-run")
    assert (code, out) == (0, TORCHRUN.decode())
    assert f"sbatch would get {options}, which overrides the header of the script" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--gpus", "1"], "own.sbatch cannot run as it is with --gpus-per-node=a100:1: "),
        (["--gpus", "3", "--nodes", "2"], "own.sbatch asks for GPUs per node: 3 on 2 nodes is not possible"),
        (["--gpus", "0"], "Give --gpus, of at least 1."),
        (
            ["--mem", "4G"],
            "own.sbatch has --mem-per-cpu, which excludes --mem. Use --sbatch mem-per-cpu=VALUE",
        ),
        (["--sbatch", "wait"], "--wait is not possible: sbatch would wait for the end of the job"),
        (
            ["--sbatch", "array=1-3"],
            "--sbatch array is not possible: the number of tasks belongs to the script",
        ),
        (["--time", "1", "--sbatch", "time=2"], "--time and --sbatch time exclude each other"),
        (["--gpus", "2", "--sbatch", "gpus=2"], "--gpus and --sbatch gpus exclude each other"),
        (["--gpus", "2", "--sbatch", "gpus-per-node=2"], "--gpus and --sbatch gpus-per-node exclude"),
        (["--gpus", "2", "--sbatch", "gres=gpu:3"], "--gpus and --sbatch gres exclude each other"),
        (["--sbatch", "no_such=1"], "'no_such' is not an sbatch option"),
        (["--sbatch", "gress=gpu:1"], "(SG104, line "),
    ],
)
def test_an_option_that_contradicts_the_script_is_refused(
    refused: Machine, words: list[str], why: str
) -> None:
    written(refused.project, TORCHRUN)
    code, _, err = refused.slurmgen("submit", "own.sbatch", *WAY, *words)
    assert (code, why in err) == (2, True), err
    assert not (refused.home / "submitted").exists()


def test_an_error_of_the_header_that_an_option_corrects_is_none(refused: Machine) -> None:
    written(refused.project, header("--cpus-per-task=3", "--mem=1000G"))
    way = ["submit", "own.sbatch", "--site", "daic", "--via", "local", "--dry-run"]
    code, _, err = refused.slurmgen(*way, "--account", "a", "--cpus", "2")
    assert (code, "own.sbatch has 1 error, " in err, "1000G" in err) == (1, True, True), err
    code, _, err = refused.slurmgen(*way, "--account", "a", "--cpus", "2", "--mem", "1G")
    assert (code, "finding" in err) == (0, False), err


def test_a_job_of_slurmgen_toml_comes_before_a_file_of_its_name(refused: Machine) -> None:
    (refused.project / "slurmgen.toml").write_text(
        '[job."a.sh"]\nframework = "python"\nscript = "train.py"\nname = "job"\n'
    )
    written(refused.project, header("--job-name=file"), "a.sh")
    for name, meant in {"a.sh": "job", "./a.sh": "file"}.items():
        refused.slurmgen("submit", name, *WAY)
        assert Ledger().all()[-1].name == meant


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.sbatch", "there is no batch script none.sbatch"),
        ("./none.py", "there is no file ./none.py"),
        ("train", "there is no job 'train'"),
        ("../out.sh", "out.sh is not in the project"),
        ("linked.sh", "linked.sh cannot be read: it is a link"),
        ("ignored.sh", "the batch script 'ignored.sh' is not among the files"),
    ],
)
def test_other_files_than_scripts_of_the_project_are_refused(refused: Machine, name: str, why: str) -> None:
    written(refused.project.parent, header(), "out.sh")
    written(refused.project, header(), "ignored.sh")
    (refused.project / "linked.sh").symlink_to(refused.project.parent / "out.sh")
    (refused.project / ".slurmgenignore").write_text("ignored.sh\n")
    code, _, err = refused.slurmgen("submit", name, *WAY)
    assert (code, why in err) == (2, True), err


def test_an_array_has_the_log_of_slurm_and_cannot_be_followed(refused: Machine) -> None:
    written(refused.project, header("--array=0-1"))
    assert refused.slurmgen("submit", "own.sbatch", *WAY, "--follow")[0] == 2
    assert refused.slurmgen("submit", "own.sbatch", *WAY)[0] == 0
    (record,) = Ledger().all()
    assert (record.name, record.output) == ("own.sbatch", "slurm-%A_%a.out")


def test_slurm_knows_the_patterns_of_a_log_that_are_not_known_here() -> None:
    assert log_path("/run", "%x-%4A_%3a-%%.out", "n", "12_7") == "/run/n-0012_007-%.out"
    assert ["%" in LOG_PATTERN.sub("", text) for text in ("%x-%4j%%", "%N.out")] == [False, True]
