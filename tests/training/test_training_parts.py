"""The modules that the training scripts share."""

import ast
import os
import random
import sys
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from core.augment import Augment
from core.checkpoint import Position, common_state, read_file, restore_random, write_file
from core.config import CIFAR, CIFAR100, MNIST, Config, Task, parse_config
from core.data import make_loaders
from core.feed import RankBatches
from core.measure import Meter
from core.models import build_model
from core.optimize import build_optimizer, build_scheduler, scaled_lr
from core.process import Process, begin, join, out_of_memory_explained
from core.report import Reporter
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, pad
from training_launch import TRAINING, free_port

ALONE = Process(rank=0, world_size=1, local_rank=0, device=torch.device("cpu"))
OFFLINE = [(CIFAR, "synthetic", (3, 32, 32), 2500, 500), (MNIST, "synthetic", (1, 28, 28), 2500, 500)]
DIGITS = (MNIST, "digits", (1, 28, 28), 1500, 297)

sizes = st.integers(1, 200)
worlds = st.integers(1, 5)


def dealt(samples: int, batch_size: int, world_size: int, seed: int | None) -> list[list[list[int]]]:
    """The batches of every rank."""
    return [list(RankBatches(samples, batch_size, rank, world_size, seed)) for rank in range(world_size)]


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds)
def test_each_test_sample_is_evaluated_exactly_once(samples: int, each: int, world_size: int) -> None:
    ranks = dealt(samples, each * world_size, world_size, seed=None)
    assert sorted(index for rank in ranks for batch in rank for index in batch) == list(range(samples))


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds, seed=st.none() | st.integers(0, 9))
def test_all_ranks_have_the_same_number_of_batches(
    samples: int, each: int, world_size: int, seed: int | None
) -> None:
    ranks = dealt(samples, each * world_size, world_size, seed)
    length = len(RankBatches(samples, each * world_size, 0, world_size, seed))
    assert [len(rank) for rank in ranks] == [length] * world_size


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds)
def test_training_batches_are_full_and_never_repeat_a_sample(
    samples: int, each: int, world_size: int
) -> None:
    batches = [batch for rank in dealt(samples, each * world_size, world_size, seed=0) for batch in rank]
    seen = [index for batch in batches for index in batch]
    assert {len(batch) for batch in batches} <= {each}
    assert len(seen) == len(set(seen)) == samples // (each * world_size) * each * world_size


def test_a_step_trains_on_the_same_samples_for_any_number_of_ranks() -> None:
    def steps(world_size: int) -> list[set[int]]:
        return [set(chain(*parts)) for parts in zip(*dealt(100, 12, world_size, seed=3), strict=True)]

    assert steps(1) == steps(2) == steps(3)


def test_order_changes_with_the_epoch_and_the_seed() -> None:
    first, other_epoch, other_seed = (RankBatches(100, 10, 0, 1, seed=seed) for seed in (0, 0, 100))
    other_epoch.set_epoch(1)
    assert list(first) == list(first)
    assert list(first) != list(other_epoch)
    assert list(first) != list(other_seed)


@pytest.mark.parametrize(("task", "data", "shape", "train", "test"), [*OFFLINE, DIGITS])
def test_torchvision_reads_the_synthetic_data(
    tmp_path: Path, task: Task, data: str, shape: tuple[int, ...], train: int, test: int
) -> None:
    config = parse_config(task, ["--data", data, "--data-dir", str(tmp_path), "--batch-size", "100"])
    loaders = make_loaders(ALONE, config)
    assert (len(loaders.train.dataset), len(loaders.test.dataset)) == (train, test)
    images, labels = next(iter(loaders.train))
    assert (images.shape, images.dtype, labels.dtype) == ((100, *shape), torch.uint8, torch.int64)
    assert set(labels.tolist()) == set(range(10))
    assert build_model(config)(images).shape == (100, 10)
    assert not [path for path in tmp_path.rglob("*") if str(os.getpid()) in path.name]


@pytest.mark.parametrize(
    ("rank", "local_rank", "fetches"),
    [(0, 0, 1), (1, 1, 0), (4, 0, 1), (5, 1, 0)],
    ids=["first of all", "second of the first node", "first of another node", "second of another node"],
)
def test_only_the_first_rank_of_a_node_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, fetches: int
) -> None:
    make_loaders(ALONE, offline(tmp_path))
    fetched: list[object] = []
    monkeypatch.setattr("core.data.fetch", lambda *asked: fetched.append(asked))
    make_loaders(Process(rank, 8, local_rank, torch.device("cpu")), offline(tmp_path))
    assert len(fetched) == fetches


def test_accuracy_is_identical_on_one_two_and_four_ranks(tmp_path: Path) -> None:
    config = parse_config(MNIST, ["--data", "digits", "--data-dir", str(tmp_path), "--model", "cnn"])
    model = build_model(config).eval()

    def correct(world_size: int) -> int:
        meters = [Meter(ALONE.device) for _ in range(world_size)]
        for rank, meter in enumerate(meters):
            for images, labels in make_loaders(Process(rank, world_size, 1, ALONE.device), config).test:
                with torch.no_grad():
                    meter.add(model(images), labels)
        return sum(int(meter.totals()[1]) for meter in meters)

    make_loaders(ALONE, config)
    assert correct(1) == correct(2) == correct(4)


@pytest.mark.parametrize(
    ("batch_size", "scaling", "lr"), [(256, "linear", 0.2), (512, "sqrt", 0.2), (512, "none", 0.1)]
)
def test_the_learning_rate_scales_with_the_global_batch(batch_size: int, scaling: str, lr: float) -> None:
    config = parse_config(CIFAR, ["--batch-size-per-rank", str(batch_size // 4), "--lr-scaling", scaling])
    assert scaled_lr(config, world_size=4) == pytest.approx(lr)


def test_the_learning_rate_warms_up_and_decays_to_zero() -> None:
    config = parse_config(MNIST, ["--epochs", "10", "--warmup-epochs", "2", "--lr", "1"])
    optimizer = build_optimizer(build_model(config), config)
    scheduler = build_scheduler(optimizer, config, steps_per_epoch=4)
    rates = []
    for _ in range(40):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert rates[:9] == sorted(rates[:9])
    assert rates[8:] == sorted(rates[8:], reverse=True)
    assert (rates[8], scheduler.get_last_lr()[0]) == (1, pytest.approx(0))


def test_weight_decay_excludes_norms_and_biases() -> None:
    config = parse_config(MNIST, ["--model", "cnn"])
    decayed, spared = build_optimizer(build_model(config), config).param_groups
    assert {weight.ndim > 1 for weight in decayed["params"]} == {True}
    assert {weight.ndim for weight in spared["params"]} == {1}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (1e-2, 0)


def test_wideresnet_has_the_requested_width() -> None:
    model = build_model(parse_config(CIFAR100, ["--model", "wideresnet", "--width", "1"]))
    assert model(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 100)
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(0.37e6, rel=0.02)


def test_workers_and_device_tensors_give_the_same_batches(tmp_path: Path) -> None:
    feeds = [make_loaders(ALONE, offline(tmp_path, "--workers", count)).train for count in ("0", "1")]
    for (images, labels), (others, other_labels) in islice(zip(*feeds, strict=True), 3):
        assert torch.equal(images, others)
        assert torch.equal(labels, other_labels)


def test_an_epoch_continues_where_it_stopped(tmp_path: Path) -> None:
    whole, rest = (make_loaders(ALONE, offline(tmp_path, "--crop-padding", "2")).train for _ in range(2))
    batches = list(whole)
    state = {"epoch": 0, "position": 30}
    rest.load_state_dict(state)
    assert rest.state_dict()["epoch"] == 0
    assert all(torch.equal(a[0], b[0]) for a, b in zip(batches[30:], rest, strict=True))


def test_random_numbers_continue_from_a_checkpoint(tmp_path: Path) -> None:
    config = offline(tmp_path)
    file = tmp_path / "state.pt"
    write_file(file, common_state(Position(), Reporter(ALONE, config), ALONE, config))
    drawn = (random.random(), np.random.random(), torch.rand(1).item())  # noqa: S311
    restore_random(read_file(file), ALONE)
    assert (random.random(), np.random.random(), torch.rand(1).item()) == drawn  # noqa: S311


def test_ranks_that_do_not_start_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="2"):
        join(offline(tmp_path, "--start-timeout", "1"))
    assert "error: of 4 ranks, 1, 2, 3 did not start within 1 s." in capfd.readouterr().err


def test_an_out_of_memory_error_names_the_option_to_lower(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"), out_of_memory_explained(ALONE):
        raise torch.OutOfMemoryError
    assert "--accumulate 2 or more" in capfd.readouterr().err


def test_limit_uses_a_fifth_as_many_test_samples(tmp_path: Path) -> None:
    loaders = make_loaders(ALONE, offline(tmp_path, "--limit", "100"))
    assert (len(loaders.train.dataset), len(loaders.test.dataset)) == (100, 20)


def test_missing_scikit_learn_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match="2"):
        make_loaders(ALONE, parse_config(MNIST, ["--data", "digits", "--data-dir", str(tmp_path)]))
    line = capfd.readouterr().err
    assert "scikit-learn, which brings them, is not installed. Install it, or use --data synthetic.\n" in line


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--limit", "20"], "--batch-size 64 is more than the 20 training samples."),
        (["--data-dir", "/proc/none"], "Use another --data-dir."),
    ],
)
def test_impossible_options_are_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_loaders(ALONE, offline(tmp_path, *flags))
    assert said in capfd.readouterr().err


def test_a_crash_rank_beyond_the_last_is_rejected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        begin(ALONE, offline(tmp_path, "--crash-rank", "1"))
    assert capfd.readouterr().err == "error: --crash-rank 1 is not a rank. The last one is 0.\n"


@pytest.mark.parametrize(
    "flags", [["--epochs", "0"], ["--batch-size", "-4"], ["--seed", "-1"], ["--limit", "x"]]
)
def test_an_invalid_count_is_rejected(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse_config(MNIST, flags)
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_threads_do_not_exceed_the_available_cpus(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(288)
    try:
        begin(ALONE, offline(tmp_path))
        assert torch.get_num_threads() == len(os.sched_getaffinity(0))
    finally:
        torch.set_num_threads(before)


def test_a_requested_thread_count_is_not_raised(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        begin(ALONE, offline(tmp_path))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_rank_names_the_slurm_node_it_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    begin(ALONE, offline(tmp_path))
    assert capfd.readouterr().out == "rank 0/1 local_rank 0 host n2 device cpu\n"


def test_a_score_is_weighted_by_samples() -> None:
    logits, labels = torch.randn(7, 10), torch.randint(10, (7,))
    meter = Meter(torch.device("cpu"))
    for part in (slice(5), slice(5, 7), slice(7, 7)):
        meter.add(logits[part], labels[part])
    score = meter.score()
    assert score.samples == 7
    assert score.loss == pytest.approx(cross_entropy(logits, labels).item())
    assert score.accuracy == pytest.approx((logits.argmax(1) == labels).float().mean().item())


def numbered(samples: int, side: int = 8) -> torch.Tensor:
    """Images (N, 1, side, side) in which all pixels differ."""
    return (
        torch.arange(samples * side * side, dtype=torch.int64)
        .remainder(251)
        .to(torch.uint8)
        .view(samples, 1, side, side)
    )


def test_augmentation_shifts_with_reflected_edges() -> None:
    image = numbered(1)
    padded = pad(image.float(), (2,) * 4, mode="reflect").to(torch.uint8)[0, 0]
    windows = [padded[top : top + 8, left : left + 8] for top in range(5) for left in range(5)]
    both = [*windows, *(window.flip(1) for window in windows)]
    augment = Augment(padding=2, flip=True, cutout=0, fill=(0.5,), seed=0)
    seen = {
        next(n for n, window in enumerate(both) if torch.equal(window, augment(image, 0, batch)[0, 0]))
        for batch in range(400)
    }
    assert len(seen) > 40, "all shifts, mirrored and not"


def test_cutout_greys_a_square() -> None:
    images = torch.zeros(64, 1, 8, 8, dtype=torch.uint8)
    cut = Augment(padding=0, flip=False, cutout=4, fill=(1.0,), seed=0)(images, 0, 0)
    assert set(cut.unique().tolist()) == {0, 255}
    sizes = (cut > 0).sum((1, 2, 3))
    assert sizes.max() == 16
    assert sizes.min() >= 4


def test_augmentation_is_the_same_for_any_number_of_ranks_and_differs_from_batch_to_batch() -> None:
    images = numbered(12)
    augment = Augment(padding=2, flip=True, cutout=3, fill=(0.5,), seed=1)
    alone = augment(images, 3, 7)
    for world_size in (2, 4):
        for rank in range(world_size):
            part = augment(images[rank::world_size], 3, 7, rank, world_size)
            assert torch.equal(part, alone[rank::world_size])
    assert not torch.equal(alone, augment(images, 3, 8))
    assert not torch.equal(alone, augment(images, 4, 7))


def test_training_does_not_import_slurmgen() -> None:
    for path in TRAINING.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name.split(".")[0] == "slurmgen"], path


def offline(data_dir: Path, *flags: str) -> Config:
    """A configuration that does not need the network."""
    return parse_config(MNIST, ["--data", "synthetic", "--data-dir", str(data_dir), *flags])
