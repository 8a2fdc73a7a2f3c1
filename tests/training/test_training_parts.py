"""The modules that the training scripts share: order, batches, augmentation, models, optimizer, output."""

import ast
import importlib.util
import random
import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from augment import Augment, augment_for
from data import Feed, Order
from device import count_flops, out_of_memory_explained
from hypothesis import given
from hypothesis import strategies as st
from images import load
from models import build_model
from optimize import Schedule, build_optimizer
from options import scaled_lr
from ranks import Ranks
from report import Meter, to_json
from resume import random_state, set_random_state
from torch.nn.functional import cross_entropy, pad
from torch.utils.data import TensorDataset
from training_launch import TRAINING
from training_options import ALONE, CPU, parsed, settled

sizes = st.integers(1, 200)
worlds = st.integers(1, 5)


@pytest.fixture
def alone() -> Iterator[Ranks]:
    """A process group of one rank."""
    yield Ranks(parsed("--device", "cpu"))
    torch.distributed.destroy_process_group()


# The order of the samples


def split(samples: int, batch_size: int, world_size: int, seed: int | None) -> list[list[list[int]]]:
    """The batches of every rank, without the samples that only fill a batch."""
    orders = [Order(samples, batch_size, rank, world_size, seed) for rank in range(world_size)]
    return [[part[: order.valid(batch)] for batch, part in enumerate(order)] for order in orders]


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds)
def test_each_test_sample_is_evaluated_exactly_once(samples: int, each: int, world_size: int) -> None:
    ranks = split(samples, each * world_size, world_size, seed=None)
    assert sorted(index for rank in ranks for batch in rank for index in batch) == list(range(samples))


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds, seed=st.none() | st.integers(0, 9))
def test_all_ranks_have_equally_many_batches_of_equal_size(
    samples: int, each: int, world_size: int, seed: int | None
) -> None:
    orders = [Order(samples, each * world_size, rank, world_size, seed) for rank in range(world_size)]
    assert [[len(part) for part in order] for order in orders] == [[each] * len(orders[0])] * world_size


@given(samples=sizes, each=st.integers(1, 40), world_size=worlds)
def test_training_batches_are_full_and_never_repeat_a_sample(
    samples: int, each: int, world_size: int
) -> None:
    batches = [batch for rank in split(samples, each * world_size, world_size, seed=0) for batch in rank]
    seen = [index for batch in batches for index in batch]
    assert {len(batch) for batch in batches} <= {each}
    assert len(seen) == len(set(seen)) == samples // (each * world_size) * each * world_size


def test_a_step_trains_on_the_same_samples_for_any_number_of_ranks() -> None:
    def steps(world_size: int) -> list[set[int]]:
        return [set(chain(*parts)) for parts in zip(*split(100, 12, world_size, seed=3), strict=True)]

    assert steps(1) == steps(2) == steps(3)


def test_no_two_epochs_of_any_two_seeds_have_the_same_order() -> None:
    def shuffled(seed: int, epoch: int) -> tuple[int, ...]:
        order = Order(100, 10, 0, 1, seed)
        order.set_epoch(epoch)
        return tuple(chain(*order))

    assert shuffled(0, 1) == shuffled(0, 1)
    assert len({shuffled(seed, epoch) for seed in range(4) for epoch in range(4)}) == 16


@pytest.mark.parametrize("seed", [2**24, 2**62])
def test_large_seeds_differ_in_order_and_augmentation(seed: int) -> None:
    seeds = (seed, seed + 1)
    orders = [Order(100, 100, 0, 1, seed=each) for each in seeds]
    assert list(orders[0]) != list(orders[1])
    augments = [Augment(2, True, 3, (0.5,), each) for each in seeds]
    one, other = (augment(numbered(100), orders[0], 0) for augment in augments)
    assert not torch.equal(one, other)


# Data


@pytest.mark.parametrize(
    ("task", "data", "shape", "samples"),
    [
        ("cifar10", "synthetic", (3, 32, 32), (2500, 500)),
        ("mnist", "synthetic", (1, 28, 28), (2500, 500)),
        ("mnist", "digits", (1, 28, 28), (1500, 297)),
    ],
)
def test_the_offline_data_have_the_shape_of_the_original(
    task: str, data: str, shape: tuple[int, ...], samples: tuple[int, int], alone: Ranks
) -> None:
    options = settled("--data", data, "--batch-size", "100", task=task)
    train, val, test = load(options, alone)
    assert (len(train), val, len(test)) == (samples[0], None, samples[1])
    images, labels = train[:100]
    assert (images.shape, images.dtype, labels.dtype) == ((100, *shape), torch.uint8, torch.int64)
    assert set(labels.tolist()) == set(range(10))
    assert build_model(options, CPU)(images).shape == (100, 10)


@pytest.mark.parametrize(
    ("rank", "local_rank", "fetches"),
    [(0, 0, 1), (1, 1, 0), (4, 0, 1), (5, 1, 0)],
    ids=["first of all", "second of the first node", "first of another node", "second of another node"],
)
def test_only_the_first_rank_of_a_node_downloads(
    monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, fetches: int
) -> None:
    fetched: list[object] = []
    monkeypatch.setattr("images.fetch", lambda *asked: fetched.append(asked))
    load(parsed(), Namespace(rank=rank, world_size=8, local_rank=local_rank, agree=lambda error: None))
    assert len(fetched) == fetches


def test_limit_uses_a_fifth_as_many_test_samples(alone: Ranks) -> None:
    train, _, test = load(parsed("--limit", "100"), alone)
    assert (len(train), len(test)) == (100, 20)


def test_validation_samples_are_held_out_of_the_training_set(alone: Ranks) -> None:
    whole, _, test = load(parsed(), alone)
    train, val, same = load(parsed("--val-samples", "500"), alone)
    assert (len(train), len(val)) == (2000, 500)
    both = sorted(image.numpy().tobytes() for part in (train, val) for image in part.tensors[0])
    assert both == sorted(image.numpy().tobytes() for image in whole.tensors[0])
    assert torch.equal(test.tensors[0], same.tensors[0])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--val-samples", "2500"], "--val-samples 2500 leaves nothing of 2500 training samples."),
        (["--data", "digits"], "scikit-learn, which brings the digits, is not installed. Install it, or use"),
    ],
)
def test_data_that_cannot_be_had_are_refused(
    flags: list[str],
    message: str,
    alone: Ranks,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("images.find_spec", lambda name: None)
    monkeypatch.setattr(alone, "leave", sys.exit)
    with pytest.raises(SystemExit, match="2"):
        load(parsed(*flags), alone)
    assert capfd.readouterr().err.startswith(f"error: {message}")


def numbered(samples: int, side: int = 8) -> torch.Tensor:
    """Images (N, 1, side, side) in which all pixels differ."""
    pixels = torch.arange(samples * side * side, dtype=torch.int64).remainder(251)
    return pixels.to(torch.uint8).view(samples, 1, side, side)


def feed(samples: int = 60, batch_size: int = 10, workers: int = 0, seed: int | None = 0) -> Feed:
    dataset = TensorDataset(numbered(samples), torch.arange(samples))
    augment = None if seed is None else Augment(2, True, 3, (0.5,), seed)
    return Feed(dataset, Order(samples, batch_size, 0, 1, seed), CPU, workers, augment)


def test_workers_and_device_tensors_give_the_same_batches() -> None:
    for (images, labels), (others, other_labels) in zip(feed(), feed(workers=1), strict=True):
        assert torch.equal(images, others)
        assert torch.equal(labels, other_labels)


def test_an_epoch_continues_where_it_stopped() -> None:
    whole, rest = feed(), feed()
    rest.order.set_epoch(0, start=4)
    remaining = list(rest)
    assert len(remaining) == 2
    assert all(torch.equal(a[0], b[0]) for a, b in zip(list(whole)[4:], remaining, strict=True))


def test_the_last_test_batch_is_filled_with_samples_that_do_not_count() -> None:
    test = feed(samples=25, seed=None)
    for batches in (list(test), list(test)):
        assert [len(images) for images, _ in batches] == [10, 10, 10]
        assert batches[2][1].tolist() == [20, 21, 22, 23, 24, -1, -1, -1, -1, -1]


# Augmentation


def drawn(augment: Augment, images: torch.Tensor, epoch: int) -> torch.Tensor:
    order = Order(len(images), len(images), 0, 1, seed=0)
    order.set_epoch(epoch)
    return augment(images, order, 0)


def test_augmentation_shifts_with_reflected_edges() -> None:
    image = numbered(1)
    padded = pad(image.float(), (2,) * 4, mode="reflect").to(torch.uint8)[0, 0]
    windows = [padded[top : top + 8, left : left + 8] for top in range(5) for left in range(5)]
    both = [*windows, *(window.flip(1) for window in windows)]
    augment = Augment(padding=2, flip=True, cutout=0, fill=(0.5,), seed=0)
    seen = {
        next(n for n, window in enumerate(both) if torch.equal(window, drawn(augment, image, epoch)[0, 0]))
        for epoch in range(400)
    }
    assert len(seen) > 40, "all shifts, mirrored and not"


def test_cutout_greys_a_square() -> None:
    images = torch.zeros(64, 1, 8, 8, dtype=torch.uint8)
    cut = drawn(Augment(padding=0, flip=False, cutout=4, fill=(1.0,), seed=0), images, 0)
    assert set(cut.unique().tolist()) == {0, 255}
    sizes = (cut > 0).sum((1, 2, 3))
    assert sizes.max() == 16
    assert sizes.min() >= 4


def test_augmentation_is_the_same_for_any_number_of_ranks_and_differs_from_batch_to_batch() -> None:
    images = numbered(1).expand(12, 1, 8, 8)
    augment = Augment(padding=2, flip=True, cutout=3, fill=(0.5,), seed=1)

    def batch(number: int, rank: int = 0, world_size: int = 1, epoch: int = 0) -> torch.Tensor:
        order = Order(24, 12, rank, world_size, seed=0)
        order.set_epoch(epoch)
        return augment(images[rank::world_size], order, number)

    for world_size in (2, 4):
        for rank in range(world_size):
            assert torch.equal(batch(1, rank, world_size), batch(1)[rank::world_size])
    assert not torch.equal(batch(0), batch(1))
    assert not torch.equal(batch(0), batch(0, epoch=1))


def test_the_digits_are_neither_mirrored_nor_shifted_by_default() -> None:
    images = numbered(4, side=28)
    assert drawn(augment_for(parsed()), images, 0) is images


# Models and optimizer


def test_wideresnet_has_the_requested_width() -> None:
    model = build_model(settled("--model", "wideresnet", "--width", "1", task="cifar100"), CPU)
    assert model(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 100)
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(0.37e6, rel=0.02)


@pytest.mark.parametrize(
    ("task", "model", "gflop"), [("cifar10", "resnet18", 3.33), ("cifar100", "wideresnet", 31.5)]
)
def test_the_work_of_an_image_is_counted(task: str, model: str, gflop: float) -> None:
    module = build_model(settled("--model", model, task=task), CPU)
    flops = count_flops(module, torch.zeros(3, 32, 32, dtype=torch.uint8))
    assert flops / 1e9 == pytest.approx(gflop, rel=0.01)
    assert module.training


def test_activation_checkpointing_keeps_gradients_and_running_statistics() -> None:
    task = ("--model", "wideresnet", "--width", "1")
    images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
    plain, spared = (
        build_model(settled(*task, *more, task="cifar10"), CPU)
        for more in ((), ("--checkpoint-activations",))
    )
    for model in (plain, spared):
        model(images).square().sum().backward()
    for one, other in zip(plain.parameters(), spared.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    for (name, one), other in zip(plain.named_buffers(), spared.buffers(), strict=True):
        if "num_batches" not in name:
            assert torch.allclose(one, other, atol=1e-5), name


def test_the_first_weights_depend_only_on_the_seed() -> None:
    models = [build_model(settled("--model", "cnn"), CPU) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*(model.parameters() for model in models), strict=True))


@pytest.mark.parametrize(
    ("batch_size", "scaling", "lr"), [(256, "linear", 0.2), (512, "sqrt", 0.2), (512, "none", 0.1)]
)
def test_the_learning_rate_scales_with_the_global_batch(batch_size: int, scaling: str, lr: float) -> None:
    flags = ("--batch-size-per-rank", str(batch_size // 4), "--lr-scaling", scaling)
    assert scaled_lr(parsed(*flags, task="cifar10"), world_size=4) == pytest.approx(lr)


def test_the_learning_rate_warms_up_and_decays_to_zero() -> None:
    schedule = Schedule(parsed("--epochs", "10", "--warmup-epochs", "2", "--lr", "1"), 1, 4)
    rates = [schedule.lr(step) for step in range(41)]
    assert rates[:9] == sorted(rates[:9])
    assert rates[8:] == sorted(rates[8:], reverse=True)
    assert (rates[8], rates[40]) == (1, pytest.approx(0))


def test_weight_decay_excludes_norms_and_biases() -> None:
    options = settled("--model", "cnn")
    decayed, spared = build_optimizer(build_model(options, CPU), options).param_groups
    assert {weight.ndim > 1 for weight in decayed["params"]} == {True}
    assert {weight.ndim for weight in spared["params"]} == {1}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (1e-2, 0)


def test_random_numbers_continue_from_a_checkpoint() -> None:
    state = random_state()

    def numbers() -> tuple[float, ...]:
        return random.random(), np.random.random(), torch.rand(1).item()  # noqa: S311

    before = numbers()
    set_random_state(state)
    assert numbers() == before


# Metrics


def test_a_score_is_weighted_by_samples_without_those_that_fill_a_batch() -> None:
    logits, labels = torch.randn(9, 10), torch.cat([torch.randint(10, (7,)), torch.tensor([-1, -1])])
    meter = Meter(ALONE, 3)
    for part in (slice(5), slice(5, 8), slice(8, 9)):
        meter.add(logits[part], labels[part])
    score = meter.score("test")
    assert score["test_samples"] == 7
    assert score["test_loss"] == pytest.approx(cross_entropy(logits[:7], labels[:7]).item())
    assert score["test_accuracy"] == pytest.approx((logits.argmax(1) == labels)[:7].float().mean().item())


@pytest.mark.parametrize("batches", [1, 2, 5, 6])
def test_a_short_epoch_has_a_speed(batches: int) -> None:
    meter = Meter(ALONE, batches)
    for _ in range(batches):
        meter.add(torch.zeros(4, 10), torch.zeros(4, dtype=torch.int64))
    meter.stop()
    assert meter.images_per_second > 0


def test_numbers_that_json_lacks_become_null() -> None:
    assert to_json({"a": float("nan"), "b": float("inf"), "c": 1.5}) == '{"a": null, "b": null, "c": 1.5}'


def test_an_out_of_memory_error_names_the_option_to_lower(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"), out_of_memory_explained(ALONE):
        raise torch.OutOfMemoryError
    assert "--accumulate 2 or more" in capfd.readouterr().err


# Form


def imported(path: Path) -> set[str]:
    """The packages and modules that a file imports, but for those that only types need."""
    tree = ast.parse(path.read_text())
    types = [
        each for each in tree.body if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
    ]
    skipped = {id(each) for part in types for each in ast.walk(part)}
    nodes = [node for node in ast.walk(tree) if id(node) not in skipped]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def test_training_does_not_import_slurmgen() -> None:
    for path in TRAINING.rglob("*.py"):
        assert "slurmgen" not in imported(path), path


@pytest.mark.parametrize("name", ["data", "resume", "options"])
def test_a_part_is_usable_without_the_others(name: str, tmp_path: Path) -> None:
    assert imported(TRAINING / f"{name}.py") & {path.stem for path in TRAINING.glob("*.py")} == set()
    alone = tmp_path / f"{name}_alone.py"
    alone.write_bytes((TRAINING / f"{name}.py").read_bytes())
    spec = importlib.util.spec_from_file_location(alone.stem, alone)
    sys.modules[alone.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


@pytest.mark.parametrize(("pattern", "most"), [("*.py", 300), ("data.py", 120), ("resume.py", 120)])
def test_files_are_short(pattern: str, most: int) -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in TRAINING.glob(pattern)}
    assert lengths
    assert {name for name, length in lengths.items() if length > most} == set()
