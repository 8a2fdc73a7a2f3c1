"""docs/guide/data-loading.md: a Dataset for several ranks, shards, and messages."""

import re
import runpy
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset

from .pages import shown_output
from .running import GUIDE, ranks_of, torchrun

SCRIPT = runpy.run_path(str(GUIDE / "data_loading.py"))
DATA = TensorDataset(torch.zeros(4))


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_script_compares_the_loader_with_a_repeated_batch(workers: str) -> None:
    completed = torchrun("data_loading.py", "--workers", workers)
    assert completed.returncode == 0, completed.err
    line = (
        rf"{workers} workers: [\d.]+ ms per step; one batch repeated: [\d.]+ ms\nshare of the loader: \d+%\n"
    )
    assert re.fullmatch(line, completed.out)


def test_a_dataset_of_files_reads_pixels_and_label(tmp_path: Path) -> None:
    SCRIPT["write_images"](tmp_path, 12)
    pixels, label = SCRIPT["Images"](tmp_path)[0]
    assert (pixels.shape, pixels.dtype, label) == ((3, 96, 96), torch.uint8, 0)


def test_workers_are_divided_among_the_ranks_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(32)))
    assert SCRIPT["workers_of_rank"]() == 7


def draws(rank: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the workers of a rank draw if every rank has called `torch.manual_seed(0)`."""
    monkeypatch.setattr(dist, "get_rank", lambda *_: rank)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    monkeypatch.setattr(dist, "is_available", lambda: True)
    torch.manual_seed(0)
    return [float(draw) for draw in SCRIPT["make_loader"](Draws(), batch_size=1, workers=1)]


class Draws(torch.utils.data.Dataset[float]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return torch.rand(()).item()


def test_the_workers_of_each_rank_draw_other_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not set(draws(0, monkeypatch)) & set(draws(1, monkeypatch))


def test_two_ranks_with_two_workers_read_each_sample_of_the_shards_once() -> None:
    completed = torchrun("data_loading_shards.py")
    assert completed.returncode == 0, completed.err
    shown = shown_output(
        "data-loading", "torchrun --standalone --nproc-per-node=2 examples/guide/data_loading_shards.py"
    )
    assert ranks_of(completed.out) == ranks_of(shown)
    totals = re.compile(r"^epoch .*$", re.M)
    assert totals.findall(completed.out) == totals.findall(shown)


def test_shards_that_do_not_divide_evenly_are_refused() -> None:
    completed = torchrun("data_loading_shards.py", ranks=3)
    assert "ValueError: 4 shards cannot be divided evenly among 6 readers" in completed.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sampler": SequentialSampler(DATA), "shuffle": True},
            "sampler option is mutually exclusive with shuffle",
        ),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
    ],
)
def test_torch_refuses_with_the_message_of_the_page(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(DATA, **options)  # type: ignore[arg-type]


def test_torch_warns_of_more_workers_than_cpus() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DataLoader(DATA, num_workers=10_000)
    assert "This DataLoader will create 10000 worker processes in total" in str(caught[0].message)
