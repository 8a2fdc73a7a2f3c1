"""Clipped gradients, held-out samples, shards in bf16, and checkpoints that ranks read together."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from images import load
from models import build_model
from report import finite
from resume import Checkpoints
from safetensors.torch import load_file
from training_launch import TRAINING, Ranks, launched, run_together
from training_options import ALONE, CPU, settled

SMALL = ("--data", "synthetic", "--limit", "205", "--batch-size", "20")
TRAIN = ("--task", "mnist", *SMALL, "--model", "cnn", "--epochs", "2", "--log-every", "1", "--no-fused")
STEPS = 20  # of both epochs
HELD_OUT = ("--val-samples", "50")
ONE_RANK = Namespace(**vars(ALONE), agree=lambda error: None)


def records(folder: Path, name: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def steps(ranks: Ranks, folder: Path, framework: str, *flags: str) -> list[dict[str, float]]:
    """The lines of steps.jsonl of a run."""
    run = ranks(framework, *TRAIN, *flags, "--run-dir", str(folder / framework))
    assert run.returncodes == [0, 0], run.err
    return records(folder / framework, "steps")


def accuracy(weights: Path, samples: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The share of samples that the model of a file recognizes."""
    model = build_model(settled("--model", "cnn"), CPU).eval()
    model.load_state_dict(torch.load(weights, weights_only=True))
    images, labels = samples
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


@pytest.fixture(scope="module")
def clipped(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    return steps(ranks, tmp_path_factory.mktemp("clipped"), "ddp", "--clip-norm", "0.5")


@pytest.mark.parametrize("framework", ["lightning", "accelerate"])
def test_frameworks_clip_to_the_same_norm(
    framework: str, ranks: Ranks, clipped: list[dict[str, float]], tmp_path: Path
) -> None:
    assert steps(ranks, tmp_path, framework, "--clip-norm", "0.5") == clipped


def test_shards_are_clipped_to_the_norm_of_all_weights(
    ranks: Ranks, clipped: list[dict[str, float]], tmp_path: Path
) -> None:
    sharded = steps(ranks, tmp_path, "fsdp", "--clip-norm", "0.5")
    # The norm is summed over shards, which rounds differently.
    assert [line["grad_norm"] for line in sharded[:3]] == [
        pytest.approx(line["grad_norm"], rel=1e-4) for line in clipped[:3]
    ]


def test_clipping_bounds_the_step(ranks: Ranks, clipped: list[dict[str, float]], tmp_path: Path) -> None:
    assert len(clipped) == STEPS
    assert max(line["grad_norm"] for line in clipped) > 0.5
    free = steps(ranks, tmp_path, "ddp")
    assert {line["grad_norm"] for line in free} == {None}
    assert [line["loss"] for line in free] != [line["loss"] for line in clipped]


@pytest.mark.parametrize("fused", ["--fused", "--no-fused"])
def test_fp16_gradients_are_clipped_without_their_scale(fused: str, ranks: Ranks, tmp_path: Path) -> None:
    both = [
        steps(ranks, tmp_path, name, "--clip-norm", "0.5", "--precision", "fp16", fused)
        for name in ("ddp", "lightning")
    ]
    assert both[0] == both[1]
    norms = [line["grad_norm"] for line in both[0] if line["grad_norm"] is not None]  # None: skipped
    assert norms
    assert max(norms) < 1000  # the scale is 65536


@pytest.mark.parametrize("framework", ["ddp", "fsdp", "lightning", "accelerate"])
def test_held_out_samples_select_the_best_model_and_the_test_set_is_used_at_the_end(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    into = (*TRAIN, *HELD_OUT, "--run-dir", str(tmp_path))
    assert ranks(framework, *into).returncodes == [0, 0]
    # One more epoch unlearns: its labels are noise, and its rate is high.
    worse = ("--epochs", "3", "--label-smoothing", "1", "--lr", "1", "--lr-scaling", "none")
    run = ranks(framework, *into, *worse)
    assert run.returncodes == [0, 0], run.err
    epochs = records(tmp_path, "metrics")
    assert not [name for line in epochs for name in line if name.startswith("test_")]
    scores = [line["val_accuracy"] for line in epochs]
    assert scores[-1] < max(scores)
    _, held, test = load(settled(*TRAIN[2:], *HELD_OUT), ONE_RANK)
    assert accuracy(tmp_path / "model-best.pt", held.tensors) == pytest.approx(max(scores))
    final = accuracy(tmp_path / "model-final.pt", test.tensors)
    assert final == pytest.approx(json.loads((tmp_path / "summary.json").read_text())["accuracy"])
    assert run.done[1] == len(test)


def test_a_checkpoint_has_the_same_accuracy_on_one_two_and_four_ranks(ranks: Ranks, tmp_path: Path) -> None:
    flags = (*TRAIN, "--run-dir", str(tmp_path))
    assert ranks("ddp", *flags).returncodes == [0, 0]
    runs = [ranks.run("training_score", flags, launched(number)) for number in (1, 2, 4)]
    scores = [re.findall(r"^score (\S+) of (\d+), loss (\S+)$", run.out, re.MULTILINE) for run in runs]
    assert [len(lines) for lines in scores] == [1, 2, 4], runs
    reported = json.loads((tmp_path / "summary.json").read_text())["accuracy"]
    assert {line[:2] for lines in scores for line in lines} == {(repr(reported), "41")}
    losses = [float(loss) for lines in scores for *_, loss in lines]
    assert losses == pytest.approx(losses[:1] * len(losses), rel=1e-6)


def test_only_rank_0_reads_which_checkpoint_is_the_latest(tmp_path: Path) -> None:
    """The file system of another node may show an older file."""
    (tmp_path / "latest").write_text("checkpoint-1-0\n")
    (tmp_path / "checkpoint-2-0").mkdir()
    given: list[object] = []
    second = Namespace(
        rank=1,
        gather=lambda value: given.append(value) or ["checkpoint-2-0", value],
        agree=lambda error: None,
    )
    assert Checkpoints(tmp_path, second).find() == tmp_path / "checkpoint-2-0"
    assert given == [None]


def test_copies_of_shards_train_like_shards_and_go_on_with_another_number(
    ranks: Ranks, tmp_path: Path
) -> None:
    """HSDP: two copies of the model on four ranks."""
    into = (*TRAIN, "--run-dir", str(tmp_path))
    first = ranks("fsdp", *into, "--replicas", "2", "--epochs", "1", "--clip-norm", "1", ranks=4)
    assert first.returncodes == [0] * 4, first.err
    plain = ranks("fsdp", *TRAIN, "--epochs", "1", "--clip-norm", "1", ranks=4)
    assert [float(loss) for loss, _ in first.ends.values()] == pytest.approx(
        [float(loss) for loss, _ in plain.ends.values()], rel=1e-3
    )
    assert ranks("fsdp", *into).returncodes == [0, 0]


def test_the_weights_are_exported_as_safetensors(ranks: Ranks, tmp_path: Path) -> None:
    assert ranks("python", *TRAIN, "--run-dir", str(tmp_path)).returncodes == [0]
    assert ranks_exit("export", str(tmp_path)) == 0
    exported = load_file(tmp_path / "model-final.safetensors")
    weights = torch.load(tmp_path / "model-final.pt", weights_only=True)
    assert all(torch.equal(exported[name], weights[name]) for name in weights)
    assert ranks_exit("export", str(tmp_path), "--best") == 1


def ranks_exit(program: str, *words: str) -> int:
    return run_together([([sys.executable, TRAINING / f"{program}.py", *words], {})], TRAINING).returncode


def test_the_newest_checkpoints_and_the_best_one_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, ONE_RANK, keep=2)
    for epoch in range(8, 13):  # 9 comes before 10
        with checkpoints.new(f"{epoch}-0", best=epoch == 9):
            pass
    (tmp_path / "checkpoint-13-0.partial").mkdir()
    assert {path.name for path in tmp_path.glob("checkpoint-*[0-9]")} == {
        "checkpoint-9-0", "checkpoint-11-0", "checkpoint-12-0",
    }  # fmt: skip
    assert (tmp_path / "best").read_text() == "checkpoint-9-0\n"
    assert checkpoints.find() == tmp_path / "checkpoint-12-0"


@pytest.mark.parametrize(("number", "right"), [(1.0, True), (float("nan"), False), (float("inf"), False)])
def test_numbers_that_are_not_finite_are_found(number: float, right: bool) -> None:
    assert finite([torch.ones(2), torch.tensor([0.0, number])]) is right


def test_fsdp_gathers_convolutions_in_bf16_and_keeps_weights_and_statistics_in_fp32(ranks: Ranks) -> None:
    flags = ("--data", "synthetic", "--model", "wideresnet", "--width", "1", "--precision", "bf16")
    run = ranks.run("training_shards", flags, launched(2))
    assert run.returncodes == [0, 0], run.err
    gathered = re.findall(r"^\S+ gathers (\S+)$", run.out, re.MULTILINE)
    assert set(gathered) == {"torch.bfloat16"}
    kept = dict(re.findall(r"^(\S+) keeps (\S+)$", run.out, re.MULTILINE))
    assert any("running_var" in name for name in kept)
    assert {kind for name, kind in kept.items() if "num_batches" not in name} == {"torch.float32"}
