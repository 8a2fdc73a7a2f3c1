"""All frameworks train the same, and interrupted runs continue exactly, also on other numbers of ranks."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from images import first, read
from models import build_model
from training_launch import Ranks, Run, launched
from training_options import CPU, settled

FRAMEWORKS = ("python", "ddp", "lightning", "accelerate")
SHARDED = ("fsdp", "lightning_fsdp", "forced")
TRAIN = ("--task", "mnist", "--data", "digits", "--model", "cnn", "--limit", "400", "--batch-size", "40")
TRAIN += ("--accumulate", "2", "--epochs", "3", "--crop-padding", "2", "--cutout", "3", "--log-every", "1")
TRAIN += ("--no-fused",)  # the fused kernels round differently at the ends of shards
STEPS = 10  # of an epoch


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run and its folder."""

    run: Run
    folder: Path


def train(ranks: Ranks, name: str, *flags: str, **more: str) -> Run:
    """Train with a framework; `forced` is accelerate with FSDP on CPUs."""
    if name == "forced":
        flags = (*TRAIN, "--strategy", "fsdp", *flags)
        return ranks.run("training_forced", flags, [each | more for each in launched(2)])
    strategy = ("--strategy", "fsdp") if name == "lightning_fsdp" else ()
    return ranks(name.partition("_")[0], *TRAIN, *strategy, *flags, **more)


@pytest.fixture(scope="module")
def whole(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Whole]:
    """An uninterrupted run of each framework."""
    folders = {name: tmp_path_factory.mktemp(name) / "run" for name in (*FRAMEWORKS, *SHARDED)}
    return {
        name: Whole(train(ranks, name, "--run-dir", str(folder)), folder) for name, folder in folders.items()
    }


def records(folder: Path, name: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, *SHARDED])
def test_a_run_writes_its_metrics(framework: str, whole: dict[str, Whole]) -> None:
    run, folder = whole[framework].run, whole[framework].folder
    assert set(run.returncodes) == {0}, run.err
    epochs = records(folder, "metrics")
    assert [line["epoch"] for line in epochs] == [1, 2, 3]
    assert [line["step"] for line in records(folder, "steps")] == list(range(1, 3 * STEPS + 1))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] == epochs[-1]["test_accuracy"]
    assert summary["images_per_second_per_rank"] == summary["images_per_second"] / len(run.starts)


@pytest.mark.parametrize("framework", ["ddp", "lightning", "accelerate", *SHARDED])
def test_all_frameworks_end_with_equal_weights(framework: str, whole: dict[str, Whole]) -> None:
    assert whole[framework].run.ends == whole["ddp"].run.ends, whole[framework].run.err
    assert whole[framework].run.done == whole["ddp"].run.done


@pytest.mark.parametrize("framework", ["ddp", "lightning", "accelerate", *SHARDED])
def test_the_exported_model_holds_whole_fp32_weights_that_are_equal_in_all_frameworks(
    framework: str, whole: dict[str, Whole]
) -> None:
    def exported(name: str) -> dict[str, torch.Tensor]:
        return torch.load(whole[name].folder / "model-final.pt", weights_only=True)

    weights, reference = exported(framework), exported("ddp")
    assert list(weights) == list(reference)
    assert all(torch.equal(weights[name], reference[name]) for name in reference)
    assert {value.dtype for name, value in weights.items() if "num_batches" not in name} == {torch.float32}


def test_the_exported_model_has_the_reported_accuracy(whole: dict[str, Whole]) -> None:
    folder = whole["ddp"].folder
    model = build_model(settled("--model", "cnn"), CPU).eval()
    model.load_state_dict(torch.load(folder / "model-final.pt", weights_only=True))
    images, labels = first(read("digits", folder, 1, 28)[1], 80).tensors
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    summary = json.loads((folder / "summary.json").read_text())
    assert accuracy == pytest.approx(summary["accuracy"])


@pytest.mark.parametrize("framework", [*FRAMEWORKS, *SHARDED])
def test_killed_and_stopped_runs_end_with_the_same_weights(
    framework: str, ranks: Ranks, whole: dict[str, Whole], tmp_path: Path
) -> None:
    """A killed run continues from the last complete epoch, a stopped one from the step."""
    step = random.Random(framework).randrange(STEPS + 1, 2 * STEPS)  # noqa: S311
    world_size = len(whole[framework].run.starts)
    into = ("--run-dir", str(tmp_path / "run"))
    crash = ("--crash-rank", str(world_size - 1), "--crash-step", str(step))
    killed = train(ranks, framework, *into, *crash)
    assert 0 not in killed.returncodes, step
    mark = tmp_path / "requeue"
    time_is_up = {"SLURM_JOB_END_TIME": "1", "REQUEUE_FILE": str(mark)}
    left = train(ranks, framework, *into, "--check-every", "4", **time_is_up)
    assert left.returncodes == [75] * world_size, left.err
    assert "not finished: saved a checkpoint and stopped before the end of the job\n" in left.out
    assert mark.exists()
    ended = train(ranks, framework, *into)
    assert ended.ends == whole[framework].run.ends, f"killed after step {step}: {ended.err}"
    lines = records(tmp_path / "run", "steps")
    assert lines == records(whole[framework].folder, "steps"), "each step once"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_finished_run_is_not_trained_again(framework: str, ranks: Ranks, whole: dict[str, Whole]) -> None:
    again = train(ranks, framework, "--run-dir", str(whole[framework].folder))
    assert again.ends == whole[framework].run.ends, again.err
    assert "epoch 3/3" not in again.out


@pytest.mark.parametrize("framework", ["ddp", "fsdp", "lightning", "lightning_fsdp", "accelerate"])
def test_a_run_of_two_ranks_continues_on_four_and_one_with_more_epochs_and_other_rates(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    into = ("--run-dir", str(tmp_path / "run"), "--epochs")
    assert train(ranks, framework, *into, "1").returncodes == [0, 0]
    changed = ("--lr", "0.001", "--weight-decay", "0.1", "--label-smoothing", "0.1")
    four = ranks_of(ranks, framework, 4, *into, "2", *changed)
    assert four.returncodes == [0] * 4, four.err
    assert [line for line in four.out.splitlines() if line.startswith("continuing")] == [
        "continuing with --epochs 2 instead of 1",
        "continuing with --lr 0.001 instead of 0.002",
        "continuing with --weight-decay 0.1 instead of 0.01",
        "continuing with --label-smoothing 0.1 instead of 0.0",
    ]
    one = ranks_of(ranks, framework, 1, *into, "3", *changed)
    assert one.returncodes == [0], one.err
    assert [line["world_size"] for line in records(tmp_path / "run", "metrics")] == [2, 4, 1]


def ranks_of(ranks: Ranks, framework: str, count: int, *flags: str) -> Run:
    strategy = ("--strategy", "fsdp") if framework == "lightning_fsdp" else ()
    return ranks(framework.partition("_")[0], *TRAIN, *strategy, *flags, ranks=count)


@pytest.mark.parametrize("framework", ["fsdp", "lightning", "accelerate"])
def test_changed_options_are_applied_alike_in_all_frameworks(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    changed = ("--lr", "0.001", "--weight-decay", "0.5", "--label-smoothing", "0.1", "--epochs", "3")
    runs = {}
    for name in ("ddp", framework):
        into = ("--run-dir", str(tmp_path / name))
        assert train(ranks, name, *into, "--epochs", "2").returncodes == [0, 0]
        runs[name] = train(ranks, name, *into, *changed)
    assert runs[framework].ends == runs["ddp"].ends, runs[framework].err
    (last,) = (records(tmp_path / "ddp", "steps")[2 * STEPS],)
    assert last["lr"] < 0.001


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model mlp", "the checkpoint was made with --model cnn, not mlp. Use another --run-dir."),
        ("--seed 1", "the checkpoint was made with --seed 0, not 1. Use another --run-dir."),
        ("--batch-size 80", "the checkpoint was made with --batch-size 40, not 80. Use another --run-dir."),
        (
            "--optimizer sgd",
            "the checkpoint was made with --optimizer adamw, not sgd. Use another --run-dir.",
        ),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    flags: str, message: str, ranks: Ranks, whole: dict[str, Whole]
) -> None:
    run = train(ranks, "python", "--run-dir", str(whole["python"].folder), *flags.split())
    assert run.returncodes == [2]
    assert run.err == f"error: {message}\n"


def test_the_weight_decay_of_a_continued_run_has_an_effect(ranks: Ranks, tmp_path: Path) -> None:
    def ends(name: str, *flags: str) -> dict[str, tuple[str, str]]:
        into = ("--run-dir", str(tmp_path / name), "--lr", "0.01")
        assert train(ranks, "python", *into, "--epochs", "1").returncodes == [0]
        return train(ranks, "python", *into, "--epochs", "2", *flags).ends

    assert ends("same") != ends("other", "--weight-decay", "0.9")


@pytest.mark.parametrize("framework", ["python", "lightning"])
def test_reaching_the_target_ends_the_run(framework: str, ranks: Ranks) -> None:
    run = train(ranks, framework, "--target-accuracy", "0.1", "--target-epochs", "2")
    assert ", 2 epochs, world size" in run.out, run.err


def test_save_every_saves_no_other_epoch_but_the_last(ranks: Ranks, tmp_path: Path) -> None:
    flags = ("--run-dir", str(tmp_path), "--save-every", "2")
    killed = train(ranks, "python", *flags, "--crash-rank", "0", "--crash-step", str(3 * STEPS - 1))
    assert killed.returncodes == [1]
    assert (tmp_path / "latest").read_text() == "checkpoint-2-0\n"
    assert train(ranks, "python", *flags).returncodes == [0]
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {"checkpoint-2-0", "checkpoint-3-0"}


def test_a_missing_gpu_is_reported_in_one_line(ranks: Ranks) -> None:
    run = train(ranks, "python", "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert run.returncodes == [2]
    assert run.err.startswith("error: local rank 0 has no GPU: 0 visible.")
    assert run.err.count("\n") == 1
