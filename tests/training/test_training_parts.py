"""The parts that the six scripts share."""

import ast
import os
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch
from core.config import CIFAR, MNIST, Config, Task, parse_config
from core.data import RankBatches, make_loaders
from core.measure import Meter
from core.models import RandomCropFlip, build_model
from core.process import Process, begin
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from training_launch import TRAINING

ALONE = Process(rank=0, world_size=1, local_rank=0, device=torch.device("cpu"))
OFFLINE = [(CIFAR, "synthetic", (3, 32, 32), 2500, 500), (MNIST, "synthetic", (1, 28, 28), 2500, 500)]
DIGITS = (MNIST, "digits", (1, 28, 28), 1500, 297)

sizes = st.integers(1, 200)
worlds = st.integers(1, 5)


def dealt(samples: int, batch_size: int, world_size: int, seed: int | None) -> list[list[list[int]]]:
    """The batches of every rank."""
    return [list(RankBatches(samples, batch_size, rank, world_size, seed)) for rank in range(world_size)]


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds)
def test_testing_sees_every_sample_exactly_once(samples: int, each: int, world_size: int) -> None:
    ranks = dealt(samples, each * world_size, world_size, seed=None)
    assert sorted(index for rank in ranks for batch in rank for index in batch) == list(range(samples))


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds, seed=st.none() | st.integers(0, 9))
def test_all_ranks_have_as_many_batches(samples: int, each: int, world_size: int, seed: int | None) -> None:
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
def test_data_made_offline_are_read_by_torchvision(
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
def test_only_the_first_rank_of_a_node_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, fetches: int
) -> None:
    make_loaders(ALONE, offline(tmp_path))
    fetched: list[Config] = []
    monkeypatch.setattr("core.data._fetch", fetched.append)
    make_loaders(Process(rank, 8, local_rank, torch.device("cpu")), offline(tmp_path))
    assert len(fetched) == fetches


def test_limit_takes_a_fifth_as_many_to_test_on(tmp_path: Path) -> None:
    loaders = make_loaders(ALONE, offline(tmp_path, "--limit", "100"))
    assert (len(loaders.train.dataset), len(loaders.test.dataset)) == (100, 20)


def test_digits_without_scikit_learn_say_what_to_install(
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
def test_what_cannot_work_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_loaders(ALONE, offline(tmp_path, *flags))
    assert said in capfd.readouterr().err


def test_a_crash_rank_beyond_the_last_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        begin(ALONE, offline(tmp_path, "--crash-rank", "1"))
    assert capfd.readouterr().err == "error: --crash-rank 1 is not a rank. The last one is 0.\n"


@pytest.mark.parametrize(
    "flags", [["--epochs", "0"], ["--batch-size", "-4"], ["--seed", "-1"], ["--limit", "x"]]
)
def test_a_count_that_is_none_is_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse_config(MNIST, flags)
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_threads_keep_to_the_cpus_really_given(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(288)
    try:
        begin(ALONE, offline(tmp_path))
        assert torch.get_num_threads() == len(os.sched_getaffinity(0))
    finally:
        torch.set_num_threads(before)


def test_threads_asked_for_are_not_raised(tmp_path: Path) -> None:
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


def test_a_score_weighs_samples_and_not_batches() -> None:
    logits, labels = torch.randn(7, 10), torch.randint(10, (7,))
    meter = Meter(torch.device("cpu"))
    for part in (slice(5), slice(5, 7), slice(7, 7)):
        meter.add(logits[part], labels[part])
    score = meter.score()
    assert score.samples == 7
    assert score.loss == pytest.approx(cross_entropy(logits, labels).item())
    assert score.accuracy == pytest.approx((logits.argmax(1) == labels).float().mean().item())


def test_augmentation_gives_each_image_a_shift_of_itself() -> None:
    images = torch.arange(1, 3 * 64 + 1, dtype=torch.float).view(3, 1, 8, 8)
    augment = RandomCropFlip(padding=2)
    assert augment.eval()(images) is images
    shifted = augment.train()(images)
    assert shifted.shape == images.shape
    for before, after in zip(images, shifted, strict=True):
        assert set(after.unique().tolist()) - {0.0} <= set(before.unique().tolist())
        assert (after > 0).sum() >= 6 * 6


def test_training_imports_nothing_of_slurmgen() -> None:
    for path in TRAINING.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name.split(".")[0] == "slurmgen"], path


def offline(data_dir: Path, *flags: str) -> Config:
    """A configuration that needs no network."""
    return parse_config(MNIST, ["--data", "synthetic", "--data-dir", str(data_dir), *flags])
