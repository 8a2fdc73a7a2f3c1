"""The bundled training scripts under each launcher."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from training_launch import TRAINING, Launcher, Ranks, Run, run_together, srun_environments

from tests.support.ports import free_port

LAUNCHERS = ("python", "ddp", "fsdp", "lightning", "accelerate")
SCRIPTS = LAUNCHERS[1:]
FRAMEWORKS = ("ddp", "lightning", "accelerate")
DIGITS = ("--task", "mnist", "--data", "digits", "--epochs", "4")
QUICK = ("--task", "mnist", "--data", "synthetic", "--limit", "128", "--epochs", "1")


@pytest.fixture(scope="module")
def digits(launch: Launcher) -> dict[str, Run]:
    return {name: launch(name, *DIGITS, cold=True) for name in LAUNCHERS}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_training_reaches_90_percent_on_real_digits(digits: dict[str, Run], launcher: str) -> None:
    assert digits[launcher].returncodes == [0] * (2 if launcher == "lightning" else 1), digits[launcher].err
    accuracy, _ = digits[launcher].done
    assert accuracy >= 0.90


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_rank_starts_and_ends_once(digits: dict[str, Run], script: str) -> None:
    assert digits[script].starts == ["rank 0/2", "rank 1/2"]
    assert sorted(digits[script].ends) == ["rank 0/2", "rank 1/2"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_ranks_end_with_the_same_loss_and_weights(digits: dict[str, Run], script: str) -> None:
    assert len(set(digits[script].ends.values())) == 1


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_test_image_is_counted_once(digits: dict[str, Run], launcher: str) -> None:
    assert digits[launcher].done[1] == 297  # odd, so two ranks get different numbers of samples


def test_plain_python_runs_one_rank(digits: dict[str, Run]) -> None:
    assert digits["python"].starts == list(digits["python"].ends) == ["rank 0/1"]


def test_all_launchers_train_the_same(digits: dict[str, Run]) -> None:
    ends = {script: digits[script].ends["rank 0/2"] for script in SCRIPTS}
    assert len({ends[script] for script in FRAMEWORKS}) == 1
    # A shard begins at another weight, and vector kernels round the last weights of a tensor differently.
    assert float(ends["fsdp"][0]) == pytest.approx(float(ends["ddp"][0]), rel=1e-4)


def test_the_loss_does_not_depend_on_the_number_of_ranks(digits: dict[str, Run]) -> None:
    """Without BatchNorm, which normalizes each rank's part of a batch."""
    alone, together = (
        float(digits[name].ends[rank][0]) for name, rank in (("python", "rank 0/1"), ("ddp", "rank 0/2"))
    )
    assert alone == pytest.approx(together, rel=1e-3)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_successful_run_prints_nothing_to_stderr(digits: dict[str, Run], launcher: str) -> None:
    hints = r"OMP_NUM_THREADS|\*{9}|run\.py:\d+\] $|`srun` command"  # of torchrun and Lightning to the user
    assert [line for line in digits[launcher].err.splitlines() if line and not re.search(hints, line)] == []


@pytest.mark.parametrize("task", ["cifar10", "cifar100"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_cifar_trains_if_a_rank_has_no_sample_of_the_last_test_batch(
    ranks: Ranks, framework: str, task: str
) -> None:
    flags = ("--data", "synthetic", "--limit", "105", "--batch-size", "20", "--epochs", "1", "--width", "1")
    run = ranks(framework, "--task", task, *flags, "--model", "wideresnet")
    assert set(run.returncodes) == {0}, run.err
    assert run.done[1] == 21
    assert len(run.ends) == 2
    assert len(set(run.ends.values())) == 1


def test_a_copied_folder_repeats_the_run_of_the_same_seed(
    digits: dict[str, Run], tmp_path: Path, launch: Launcher
) -> None:
    shutil.copytree(TRAINING, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    flags = ["--data-dir", str(launch.data_dir), *DIGITS, "--workers", "2"]
    run = run_together([([sys.executable, "copied/train_ddp.py", *flags], {})], tmp_path)
    assert run.ends == digits["python"].ends


def test_nodes_with_local_disks_each_get_the_data(tmp_path: Path) -> None:
    port = free_port()
    shape = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    script = [str(TRAINING / "train_ddp.py"), *QUICK]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *shape]
    nodes = [([*torchrun, f"--node-rank={n}", *script, "--data-dir", tmp_path / f"n{n}"], {}) for n in (0, 1)]
    run = run_together(nodes, tmp_path)
    assert run.returncodes == [0, 0], run.err
    assert sorted(run.ends) == ["rank 0/2", "rank 1/2"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_tasks_of_a_slurm_step_train_together_without_a_launcher(ranks: Ranks, script: str) -> None:
    run = ranks.run(f"train_{script}", QUICK, srun_environments(2))
    assert run.returncodes == [0, 0], run.err
    assert run.starts == ["rank 0/2", "rank 1/2"]
    assert len(set(run.ends.values())) == 1


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_in_the_batch_script_of_four_tasks_is_one_rank(ranks: Ranks, script: str) -> None:
    batch = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "0"}
    batch |= {"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "n[1-2]"}
    run = ranks.run(f"train_{script}", QUICK, [batch])
    assert run.returncodes == [0], run.err
    assert run.starts == ["rank 0/1"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_rank_that_fails_ends_the_run_with_failure(launch: Launcher, framework: str) -> None:
    run = launch(framework, *QUICK, "--crash-rank", "1")
    assert 0 not in run.returncodes
    assert "rank 1 fails on purpose" in run.err
    assert not run.ends


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_missing_data_without_a_network_is_reported_in_one_line(
    launch: Launcher, tmp_path: Path, launcher: str
) -> None:
    run = launch(launcher, "--data-dir", str(tmp_path))
    (line,) = run.errors
    assert line.startswith(f"error: cifar10 is not in {tmp_path} and could not be downloaded: ")
    assert f"fetch_data.py cifar10 --data-dir {tmp_path}` on a host with a network" in line
    assert 0 not in run.returncodes
    assert "images.py" not in run.err  # only torchrun prints a traceback


def test_missing_mnist_is_reported(tmp_path: Path) -> None:
    run = Ranks(tmp_path / "none")("python", "--task", "mnist")
    assert run.returncodes == [2]
    assert run.err.startswith(f"error: mnist is not in {tmp_path / 'none'} ")
    assert run.err.count("\n") == 1


def test_the_flags_of_all_scripts_are_the_same_but_for_the_strategy() -> None:
    helps = [flags_of(script) for script in SCRIPTS]
    assert "--batch-size-per-rank" in helps[0]
    ddp = {"--bucket-mb", "--static-graph", "--no-static-graph"}
    assert helps == [
        helps[0],
        helps[0] - ddp | {"--replicas"},
        helps[0] | {"--strategy"},
        helps[0] | {"--strategy"},
    ]


def flags_of(script: str) -> set[str]:
    text = run_together([([sys.executable, TRAINING / f"train_{script}.py", "--help"], {})], TRAINING).out
    return set(re.findall(r"--[a-z][a-z0-9-]*", text.split("training:")[0]))


def test_the_flags_need_no_torch() -> None:
    """Programs that start these scripts can read them."""
    # Isolated from site-packages, so that torch cannot be imported.
    code = "from options import DDP, STRATEGY, parse_options; parse_options(DDP, STRATEGY, argv=['--help'])"
    argv = [sys.executable, "-S", "-c", code]
    text = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=TRAINING).stdout
    assert "GLOBAL batch size" in " ".join(text.split())
