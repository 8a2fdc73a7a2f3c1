"""Runs that hang, lose their numbers, or are started in surroundings that would change them."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from training_launch import TRAINING, Ranks, Started

from tests.support.ranks import start

SMALL = ("--task", "mnist", "--data", "synthetic", "--limit", "100", "--batch-size", "20")
LONG = (*SMALL, "--epochs", "100000")
FRAMEWORKS = ("ddp", "fsdp", "lightning", "accelerate")


def wait_for(started: Started, line: str) -> None:
    """Wait until a rank has printed `line`."""
    end = time.monotonic() + 600
    while line not in started.out:
        assert time.monotonic() < end, started.out
        time.sleep(0.1)


@pytest.mark.parametrize("framework", ["ddp", "lightning"])
def test_a_stopped_rank_is_named_and_ends_the_run(framework: str, ranks: Ranks) -> None:
    started = ranks.start(framework, *LONG, "--step-timeout", "3", "--start-timeout", "60")
    wait_for(started, "epoch 2/")
    os.kill(started.processes[1].pid, signal.SIGTSTP)  # it stops the copy: see fork_server.py
    started.processes[0].wait(600)
    os.kill(started.processes[1].pid, signal.SIGKILL)
    run = started.ended()
    assert run.returncodes[0] == 1
    (line,) = run.errors
    assert line.startswith("error: no progress for 3 s: rank 1 on ")
    assert " does not respond (" in line


def test_a_suspended_run_goes_on(ranks: Ranks) -> None:
    started = ranks.start(
        "ddp", *LONG, "--step-timeout", "3", "--target-accuracy", "0.0", "--target-epochs", "150"
    )
    wait_for(started, "epoch 2/")
    for process in started.processes:
        os.kill(process.pid, signal.SIGTSTP)
    time.sleep(6)
    for process in started.processes:
        os.kill(process.pid, signal.SIGCONT)
    run = started.ended()
    assert run.returncodes == [0, 0], run.err


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loss_that_is_not_a_number_ends_the_run_in_one_line(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    flags = (
        "--optimizer",
        "sgd",
        "--lr",
        "1e30",
        "--epochs",
        "3",
        "--run-dir",
        str(tmp_path),
        "--log-every",
        "1",
    )
    run = ranks(framework, *SMALL, *flags)
    assert run.returncodes == [1, 1], run.err
    (line,) = run.errors
    assert line.startswith("error: the loss is NaN or infinite in epoch 1.")
    for name in tmp_path.glob("*.jsonl"):
        for text in name.read_text().splitlines():
            json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_stop_after_a_nan_keeps_the_good_checkpoint(framework: str, ranks: Ranks, tmp_path: Path) -> None:
    into = (*SMALL, "--optimizer", "sgd", "--run-dir", str(tmp_path), "--check-every", "2")
    assert ranks(framework, *into, "--epochs", "1").returncodes == [0, 0]
    before = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    poison = ("--epochs", "3", "--lr", "1e30")
    run = ranks(framework, *into, *poison, SLURM_JOB_END_TIME="1")
    assert run.returncodes == [1, 1], run.err
    (line,) = run.errors
    assert " is NaN or infinite in epoch 2. No checkpoint holds it." in line
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == before
    assert ranks(framework, *into, "--epochs", "2").returncodes == [0, 0]


@pytest.mark.parametrize(("framework", "number"), [("ddp", signal.SIGTERM), ("lightning", signal.SIGTERM)])
def test_a_signal_to_a_rank_and_its_workers_saves_and_the_run_continues_exactly(
    framework: str, number: signal.Signals, ranks: Ranks, tmp_path: Path
) -> None:
    """Slurm signals all processes of a step."""
    flags = (*SMALL, "--epochs", "20", "--workers", "1", "--check-every", "1")
    script = TRAINING / f"train_{framework}.py"
    argv = [sys.executable, script, "--data-dir", ranks.data_dir, *flags, "--run-dir", tmp_path]
    started = start([(argv, {})], tmp_path, cold=True)
    wait_for(started, "epoch 2/")
    os.killpg(started.processes[0].pid, number)
    stopped = started.ended()
    assert stopped.returncodes == [75], stopped.err
    ended = ranks.run(f"train_{framework}", (*flags, "--run-dir", str(tmp_path)), [{}])
    assert ended.ends == ranks("python", *flags).ends, ended.err


def test_a_rank_without_an_address_is_refused_in_one_line(ranks: Ranks) -> None:
    run = ranks.run("train_ddp", SMALL, [{"RANK": "0", "WORLD_SIZE": "2"}])
    assert run.returncodes == [2]
    assert run.err == (
        "error: RANK is set, but not MASTER_ADDR and MASTER_PORT. Start with torchrun or srun, or set all.\n"
    )


def test_a_variable_of_accelerate_does_not_change_the_accumulation(ranks: Ranks) -> None:
    flags = (*SMALL, "--epochs", "1", "--accumulate", "2")
    plain = ranks("accelerate", *flags)
    assert plain.returncodes == [0, 0], plain.err
    assert ranks("accelerate", *flags, ACCELERATE_GRADIENT_ACCUMULATION_STEPS="4").ends == plain.ends


@pytest.mark.parametrize("seed", [2**24, 2**62])
def test_large_seeds_train(seed: int, ranks: Ranks) -> None:
    run = ranks(
        "python", *SMALL, "--epochs", "1", "--crop-padding", "2", "--cutout", "3", "--seed", str(seed)
    )
    assert run.returncodes == [0], run.err


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_epoch_of_five_batches_reports_a_speed(framework: str, ranks: Ranks, tmp_path: Path) -> None:
    run = ranks(framework, *SMALL, "--epochs", "1", "--run-dir", str(tmp_path))
    assert run.returncodes == [0, 0], run.err
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["images_per_second"] > 0
