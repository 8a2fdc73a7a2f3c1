"""What a command makes of its argument: a program becomes a job, a batch script stays as it is."""

from pathlib import Path

import pytest

from tests.conftest import Run

LIGHTNING = 'import lightning as L\n\nif __name__ == "__main__":\n    L.Trainer(devices=4, num_nodes=1)\n'
BATCH = "#!/bin/bash\n#SBATCH --time=1:00:00\ntrue\n"
HERE = ("--site", "generic")
DRY = ("--dry-run", "--via", "local")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LIGHTNING)
    (tmp_path / "ranks.py").write_text(
        "#!/usr/bin/env python3\nimport torch.distributed as d\nd.init_process_group()\n"
    )
    (tmp_path / "run.sh").write_text("#!/bin/bash\ntorchrun --nproc-per-node=2 ranks.py\n")
    (tmp_path / "old.sbatch").write_text(BATCH)
    (tmp_path / "run.pl").write_text("#!/usr/bin/perl\nprint 1;\n")
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "train.py").write_text("from accelerate import Accelerator\nAccelerator()\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "made", "notice"),
    [
        (["train.py", "--gpus", "4"], "lightning, 4 ranks", "framework: lightning, from train.py:4;"),
        (["./train.py", "--gpus", "4"], "lightning, 4 ranks", "--framework changes it"),
        (["ranks.py", "--gpus", "2"], "ddp, 2 ranks", "framework: ddp, from ranks.py:3;"),
        (["run.sh", "--gpus", "2"], "python, 1 rank", "where torchrun starts the ranks"),
        (["-m", "pkg.train", "--gpus", "2"], "accelerate, 2 ranks", "from pkg/train.py:2"),
        (["--gpus", "2", "--", "python", "ranks.py", "--lr", "1"], "ddp, 2 ranks", "from ranks.py:3"),
        (["--gpus", "2", "--", "python", "-m", "pkg.train"], "accelerate, 2 ranks", "from pkg/train.py:2"),
        (
            ["--gpus", "2", "--", "torchrun", "--nproc-per-node=2", "ranks.py"],
            "ddp, 2 ranks",
            "--nproc-per-node=2",
        ),
    ],
)
@pytest.mark.parametrize("command", [("submit", *DRY), ("render",)])
def test_a_program_becomes_a_job_of_its_framework(
    words: list[str], made: str, notice: str, command: tuple[str, ...], project: Path, slurmgen: Run
) -> None:
    result = slurmgen(command[0], *HERE, *command[1:], *words)
    assert result.returncode == 0, result.stderr
    assert f"on generic: {made}" in result.stdout
    assert result.stderr.count(notice) == 1


def test_options_and_slurmgen_toml_win_over_the_program(project: Path, slurmgen: Run) -> None:
    by_option = slurmgen("render", *HERE, "ranks.py", "--framework", "srun", "--gpus", "2")
    (project / "slurmgen.toml").write_text('[job.a]\nscript = "ranks.py"\nframework = "python"\n')
    by_file = slurmgen("render", *HERE, "a")
    assert ("generic: srun" in by_option.stdout, "generic: python" in by_file.stdout) == (True, True)
    assert "framework:" not in by_option.stderr + by_file.stderr


def test_a_job_of_slurmgen_toml_without_a_framework_gets_that_of_its_program(
    project: Path, slurmgen: Run
) -> None:
    (project / "slurmgen.toml").write_text('site = "generic"\n[job.a]\nscript = "pkg/train.py"\ngpus = 2\n')
    assert "generic: accelerate, 2 ranks" in slurmgen("render", "a").stdout
    assert slurmgen("render", "--all", "--write").returncode == 0
    assert slurmgen("check").returncode == 0
    assert "from pkg/train.py:2" in slurmgen("explain", "a").stdout


@pytest.mark.parametrize("command", ["render", "explain", "run", "where", "doctor"])
def test_a_batch_script_is_refused_where_a_job_is_needed(command: str, project: Path, slurmgen: Run) -> None:
    result = slurmgen(command, "old.sbatch")
    assert (result.returncode, "old.sbatch is a batch script" in result.stderr) == (2, True)


def test_a_batch_script_is_submitted_as_it_is(project: Path, slurmgen: Run) -> None:
    assert slurmgen("submit", "old.sbatch", *HERE, *DRY).stdout == BATCH


def test_a_program_of_another_interpreter_is_refused_as_a_batch_script(project: Path, slurmgen: Run) -> None:
    result = slurmgen("submit", "./run.pl", *HERE, *DRY)
    assert (result.returncode, "not a Python or shell program" in result.stderr) == (2, True)


def test_no_program_and_no_job_is_an_error_that_names_init_and_the_example(
    tmp_path: Path, slurmgen: Run
) -> None:
    result = slurmgen("submit", *HERE, *DRY)
    assert (result.returncode, result.stdout) == (2, "")
    assert "slurmgen init" in result.stderr
    assert slurmgen("submit", "--script", "training/train_ddp.py", *HERE, *DRY).returncode == 0


def test_a_full_path_in_the_project_is_one_of_the_project(project: Path, slurmgen: Run) -> None:
    words = (
        "--script",
        str(project / "ranks.py"),
        "--",
        f"--data={project}/pkg",
        "--from",
        str(project / "run.sh"),
    )
    result = slurmgen("render", *HERE, *words)
    assert "ranks.py --data=pkg --from run.sh" in " ".join(result.stdout.split())
    assert "is not sent" not in result.stderr


def test_a_full_path_outside_the_project_is_not_sent(
    project: Path, slurmgen: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "data.bin"
    other.touch()
    result = slurmgen("render", *HERE, "ranks.py", "--", "--data", str(other), "/there/x")
    assert f"warning: {other} exists on this machine and is not sent" in result.stderr
    assert "/there/x exists" not in result.stderr


@pytest.mark.parametrize(
    ("text", "options", "fact"),
    [
        (
            LIGHTNING,
            ("--gpus", "2"),
            "train.py:4: the Trainer has devices=4, but the job has 1 node with 2 GPUs",
        ),
        (LIGHTNING, ("--gpus", "8", "--nodes", "2"), "train.py:4: the Trainer has num_nodes=1"),
        ("import torch\ndef f(:\n", (), "train.py:2: Python cannot compile it"),
    ],
)
def test_what_must_fail_is_refused_before_the_queue(
    text: str, options: tuple[str, ...], fact: str, project: Path, slurmgen: Run
) -> None:
    (project / "train.py").write_text(text)
    result = slurmgen("render", *HERE, "train.py", *options)
    assert (result.returncode, fact in result.stderr) == (2, True), result.stderr


GROUP = "import os, torch\nimport torch.distributed as d\n"


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("d.init_process_group(backend='gloo')", "train.py:3: the backend gloo"),
        ("d.init_process_group('gloo')", "train.py:3: the backend gloo"),
        ("d.init_process_group(); torch.device('cuda:0')", "train.py:3: each rank that uses cuda:0"),
        ("d.init_process_group(); os.environ['WORLD_SIZE'] = '4'", "train.py:3: it sets WORLD_SIZE to 4"),
        ("d.init_process_group()", "nothing in the job is known to bring torch"),
    ],
)
def test_what_may_fail_is_a_warning(line: str, warning: str, project: Path, slurmgen: Run) -> None:
    (project / "train.py").write_text(f"{GROUP}{line}\n")
    result = slurmgen("render", *HERE, "train.py", "--gpus", "2")
    assert (result.returncode, warning in result.stderr) == (0, True), result.stderr


def test_data_that_is_named_and_not_sent_is_a_warning(project: Path, slurmgen: Run) -> None:
    for name in ("data/a.csv", "raw/b.csv", "out/c.csv"):
        (project / name).parent.mkdir()
        (project / name).touch()
    (project / ".slurmgenignore").write_text("data/\nout/\n")
    words = ("ranks.py", *HERE, *DRY, "--", "--data", "data/a.csv", "--data-dir=raw", "--save", "out")
    warned = [line for line in slurmgen("submit", *words).stderr.splitlines() if "is not sent" in line]
    assert [line.split()[1] for line in warned] == ["data/a.csv"]


@pytest.mark.parametrize("lock", [True, False])
def test_a_uv_project_without_torch_is_named(lock: bool, project: Path, slurmgen: Run) -> None:
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["torch"]\n'
    )
    if lock:
        (project / "uv.lock").write_text('[[package]]\nname = "numpy"\n')
    (project / "ranks.py").write_text("import torch\n")
    result = slurmgen("render", *HERE, "ranks.py", "--python-env", "uv")
    assert ("lists torch" in result.stderr) is lock


def test_init_makes_jobs_of_the_programs_and_batch_scripts(project: Path, slurmgen: Run) -> None:
    (project / "old.sbatch").write_text(f"{BATCH}python ranks.py\n")
    (project / "bad.py").write_bytes(b"\0")
    assert slurmgen("init", *HERE).returncode == 0
    text = (project / "slurmgen.toml").read_text()
    assert "# framework: lightning.Trainer (train.py:4)" in text
    assert 'script = "train.py"' in text
    assert "[job.old]  # adopted from old.sbatch" in text
    assert slurmgen("render", "train").returncode == 0
    assert slurmgen("render", "--all", "--write").returncode == 0


def test_init_in_an_empty_folder_writes_no_job(tmp_path: Path, slurmgen: Run) -> None:
    assert slurmgen("init", *HERE).returncode == 0
    assert "\n[job" not in (tmp_path / "slurmgen.toml").read_text()
    assert "no program and no job is named" in slurmgen("submit", "--dry-run").stderr
