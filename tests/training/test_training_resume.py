"""Interrupted runs continue exactly, in each framework and with other numbers of ranks."""

import json
import random
import re
from pathlib import Path

import pytest
from training_launch import Run
from training_ranks import Ranks, launched

FRAMEWORKS = ("python", "ddp", "lightning", "accelerate")
TRAIN = ("--data", "digits", "--model", "cnn", "--batch-size", "100", "--accumulate", "5", "--epochs", "4")
SHARDS = (*TRAIN, "--epochs", "2", "--strategy", "fsdp")
STEPS = 15  # of an epoch
Whole = dict[str, tuple[Run, Path]]


@pytest.fixture(scope="module")
def whole(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An uninterrupted run of each framework, and its folder."""
    folders = {name: tmp_path_factory.mktemp(name) / "run" for name in FRAMEWORKS}
    return {
        name: (ranks(name, "mnist", *TRAIN, "--run-dir", str(folder)), folder)
        for name, folder in folders.items()
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_cnn_reaches_97_percent_on_the_digits(framework: str, whole: Whole) -> None:
    run, folder = whole[framework]
    assert set(run.returncodes) == {0}, run.err
    assert run.done[0] >= 0.97
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] == lines[-1]["test_accuracy"]
    assert summary["images_per_second_per_rank"] == summary["images_per_second"] / len(run.starts)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_killed_and_stopped_runs_end_with_the_same_weights(
    framework: str, ranks: Ranks, whole: Whole, tmp_path: Path
) -> None:
    """A killed run continues from the last complete epoch, a stopped one from the step."""
    step, world_size = random.randrange(STEPS + 1, 2 * STEPS), len(whole[framework][0].starts)  # noqa: S311
    into = ("--run-dir", str(tmp_path / "run"))
    crash = ("--crash-rank", str(world_size - 1), "--crash-step", str(step))
    killed = ranks(framework, "mnist", *TRAIN, *into, *crash)
    assert 0 not in killed.returncodes, step
    mark = tmp_path / "requeue"
    time_is_up = {"SLURM_JOB_END_TIME": "1", "REQUEUE_FILE": str(mark)}
    left = ranks(framework, "mnist", *TRAIN, *into, "--check-every", "7", **time_is_up)
    assert left.returncodes == [75] * world_size, left.err
    assert "not finished: saved a checkpoint and stopped before the end of the job\n" in left.out
    assert mark.exists()
    ended = ranks(framework, "mnist", *TRAIN, *into)
    assert ended.ends == whole[framework][0].ends, f"killed after step {step}: {ended.err}"


@pytest.mark.parametrize(
    ("framework", "strategy"), [("ddp", "ddp"), ("ddp", "fsdp"), ("lightning", "fsdp"), ("accelerate", "ddp")]
)
def test_a_run_of_four_ranks_continues_on_two_with_equal_accuracy(
    framework: str, strategy: str, ranks: Ranks, tmp_path: Path
) -> None:
    flags = (*TRAIN, "--strategy", strategy, "--run-dir", str(tmp_path / "run"), "--check-every", "20")
    left = ranks(framework, "mnist", *flags, ranks=4, SLURM_JOB_END_TIME="1")
    assert left.returncodes == [75] * 4, left.err
    ended = ranks(framework, "mnist", *flags)
    assert ended.returncodes == [0, 0], ended.err
    assert ended.done[0] >= 0.97
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["world_size"] for line in lines] == [4, 2, 2, 2]


@pytest.fixture(scope="module")
def in_shards(ranks: Ranks) -> Run:
    run = ranks("ddp", "mnist", *SHARDS)
    assert run.returncodes == [0, 0], run.err
    return run


@pytest.mark.parametrize("script", [("ddp", "mnist"), ("lightning", "mnist"), ("forced", "training")])
def test_each_framework_trains_the_same_with_fsdp_and_interruptions(
    script: tuple[str, str], ranks: Ranks, in_shards: Run, tmp_path: Path
) -> None:
    """`forced` is accelerate."""
    flags = (*SHARDS, "--run-dir", str(tmp_path / "run"))
    left = ranks(*script, *flags, "--check-every", "20", SLURM_JOB_END_TIME="1")
    assert left.returncodes == [75, 75], left.err
    ended = ranks(*script, *flags)
    assert ended.ends == in_shards.ends, ended.err
    assert ended.done == in_shards.done


def test_accelerate_rejects_fsdp_on_cpus(ranks: Ranks) -> None:
    run = ranks("accelerate", "mnist", *SHARDS)
    assert run.returncodes == [2, 2]
    assert "error: accelerate has FSDP only for GPUs. Use the ddp script" in run.err


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_finished_run_is_not_trained_again(framework: str, ranks: Ranks, whole: Whole) -> None:
    run, folder = whole[framework]
    again = ranks(framework, "mnist", *TRAIN, "--run-dir", str(folder))
    assert again.ends == run.ends, again.err
    assert "epoch 4/4" not in again.out


def test_accuracy_is_identical_on_one_two_and_four_ranks(ranks: Ranks, whole: Whole) -> None:
    flags = (*TRAIN, "--run-dir", str(whole["ddp"][1]))
    runs = [ranks.run("training_score", flags, launched(count)) for count in (1, 2, 4)]
    said = [re.findall(r"^score (\S+) of (\d+), loss (\S+)$", run.out, re.MULTILINE) for run in runs]
    assert [len(lines) for lines in said] == [1, 2, 4], runs
    assert {(accuracy, samples) for lines in said for accuracy, samples, _ in lines} == {
        (repr(json.loads((whole["ddp"][1] / "summary.json").read_text())["accuracy"]), "297")
    }
    losses = [float(loss) for lines in said for *_, loss in lines]
    assert losses == pytest.approx(losses[:1] * len(losses), rel=1e-6)


def test_a_checkpoint_of_another_model_is_rejected(ranks: Ranks, whole: Whole) -> None:
    run = ranks("python", "mnist", *TRAIN, "--run-dir", str(whole["python"][1]), "--model", "mlp")
    assert run.returncodes == [2]
    assert run.err.startswith("error: the checkpoint was made with --model cnn, not mlp.")


@pytest.mark.parametrize("framework", ["python", "lightning"])
def test_reaching_the_target_ends_the_run(framework: str, ranks: Ranks) -> None:
    run = ranks(framework, "mnist", *TRAIN, "--target-accuracy", "0.5", "--target-epochs", "2")
    assert ", 2 epochs, world size" in run.out


def test_a_missing_gpu_is_reported_in_one_line(ranks: Ranks) -> None:
    run = ranks("python", "mnist", *TRAIN, "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert run.returncodes == [2]
    assert run.err.startswith("error: local rank 0 has no GPU: 0 visible.")
    assert run.err.count("\n") == 1
