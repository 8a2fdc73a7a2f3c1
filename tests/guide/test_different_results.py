"""docs/guide/different-results.md: each reason for other weights than on one GPU."""

import re

import pytest
import torch
from torch import nn

from .pages import shown_output
from .running import torchrun

COMMAND = "torchrun --standalone --nproc-per-node=2 examples/guide/different_results.py"


def rows(out: str) -> dict[str, float]:
    """The largest difference by reason."""
    return {name: float(most) for name, most in re.findall(r"^(\w.*?)  +(\S+)$", out, re.M)}


@pytest.fixture(scope="module")
def printed() -> dict[str, float]:
    completed = torchrun("different_results.py")
    assert completed.returncode == 0, completed.err
    return rows(completed.out)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("nothing but the order of sums", 1e-5),
        ("the same in fp64", 1e-12),
        ("BatchNorm of all ranks", 1e-5),
        ("unequal size, exact mean", 1e-5),
    ],
)
def test_two_ranks_learn_what_one_learns(printed: dict[str, float], name: str, most: float) -> None:
    assert printed[name] < most


@pytest.mark.parametrize(
    "name",
    [
        "batch size per rank kept",
        "learning rate x ranks",
        "other order of samples",
        "BatchNorm of each rank",
        "dropout",
        "parts of unequal size",
        "TF32",
    ],
)
def test_a_reason_makes_another_training(printed: dict[str, float], name: str) -> None:
    assert printed[name] > 1e-3


def test_the_page_shows_the_reasons_that_the_script_isolates(printed: dict[str, float]) -> None:
    assert rows(shown_output("different-results", COMMAND)).keys() == printed.keys()


@pytest.mark.usefixtures("process_group")
def test_sync_batchnorm_refuses_cpus() -> None:
    with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on GPU or XPU"):
        nn.SyncBatchNorm(3)(torch.zeros(2, 3))
