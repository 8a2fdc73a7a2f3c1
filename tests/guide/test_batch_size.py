"""docs/guide/batch-size.md, its script and its measurements."""

import json
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch.optim import SGD, lr_scheduler

from .pages import blocks
from .running import GUIDE, REPOSITORY, python

SCRIPT = runpy.run_path(str(GUIDE / "batch_size.py"))
MEASURED = json.loads((REPOSITORY / "docs" / "guide" / "figures" / "batch-size.json").read_text())
PAGE = (REPOSITORY / "docs" / "guide" / "batch-size.md").read_text()


def loss(optimizer: str, batch: int, rule: str, warmup: float = 0.0) -> float:
    wanted = {"optimizer": optimizer, "batch": batch, "rule": rule, "warmup": warmup}
    (run,) = (run for run in MEASURED["rules"] if wanted.items() <= run.items())
    return float(run["loss"])


def of_grid(optimizer: str, batch: int) -> dict[float, float]:
    """The loss by learning rate."""
    runs = (run for run in MEASURED["grid"] if (run["optimizer"], run["batch"]) == (optimizer, batch))
    return {run["lr"]: run["loss"] for run in runs}


@pytest.mark.parametrize(("rule", "factor"), [("none", 1), ("square root", 2), ("linear", 4)])
def test_a_rule_scales_with_the_global_batch(rule: str, factor: float) -> None:
    assert SCRIPT["scaled"](0.1, 16, 64, rule) == pytest.approx(0.1 * factor)


def test_the_script_measures_each_batch_rule_and_learning_rate_and_reports_the_best(tmp_path: Path) -> None:
    sizes = ["--batches", "64", "256", "--grid", "1e-9", "0.1", "--epochs", "1", "--seeds", "1"]
    completed = python("batch_size.py", "--optimizers", "SGD", *sizes, "-o", str(tmp_path / "out.json"))
    assert completed.returncode == 0, completed.err
    assert completed.out.startswith("SGD: batch 64, best lr 0.1, loss ")
    results = json.loads((tmp_path / "out.json").read_text())
    assert {(run["batch"], run["lr"]) for run in results["grid"]} == {
        (64, 1e-9), (64, 0.1), (256, 1e-9), (256, 0.1),
    }  # fmt: skip
    assert [(run["batch"], run["rule"], run["warmup"]) for run in results["rules"]][-1] == (
        256,
        "linear",
        0.2,
    )


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_the_page_shows_the_loss_of_a_learning_rate_times_world_size(optimizer: str) -> None:
    losses = of_grid(optimizer, 64)
    best = min(losses, key=lambda lr: losses[lr])
    (row,) = re.findall(rf"^\| {optimizer}, loss \| (.*) \|$", PAGE, re.M)
    assert row.split(" | ") == [f"{losses[best * ranks]:.3f}" for ranks in (1, 2, 4, 8)]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_without_scaling_the_measured_loss_rises_with_each_doubling(optimizer: str) -> None:
    losses = [loss(optimizer, batch, "none") for batch in (16, 32, 64, 128, 256, 512)]
    assert losses == sorted(losses)


@pytest.mark.parametrize(("optimizer", "batch"), [("SGD", 64), ("AdamW", 256)])
def test_linear_scaling_is_best_in_the_middle_of_the_measured_range(optimizer: str, batch: int) -> None:
    assert (
        loss(optimizer, batch, "linear")
        < loss(optimizer, batch, "square root")
        < loss(optimizer, batch, "none")
    )


@pytest.mark.parametrize(("optimizer", "batch"), [("SGD", 256), ("AdamW", 512)])
@pytest.mark.parametrize("warmup", [0.0, 0.2])
def test_the_square_root_is_best_at_large_batches(optimizer: str, batch: int, warmup: float) -> None:
    assert loss(optimizer, batch, "square root") < loss(optimizer, batch, "linear", warmup)


@pytest.mark.parametrize(("optimizer", "useful", "too_large"), [("SGD", 64, 512), ("AdamW", 256, 512)])
def test_above_the_useful_batch_the_best_measured_loss_rises(
    optimizer: str, useful: int, too_large: int
) -> None:
    best = {batch: min(of_grid(optimizer, batch).values()) for batch in (16, useful, too_large)}
    assert best[useful] < 1.5 * best[16] < best[too_large]


def test_the_joined_schedulers_warm_up_and_then_fall_to_zero() -> None:
    (block,) = blocks("batch-size", "python")
    weight, steps = torch.nn.Parameter(torch.zeros(1)), 1000
    names = {**vars(lr_scheduler), "optimizer": (optimizer := SGD([weight], lr=1.0)), "steps": steps}
    exec(block, names)  # noqa: S102  (the code of our own page)
    rates = []
    for _ in range(steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        names["scheduler"].step()
    assert [rates[0], rates[100], rates[steps]] == pytest.approx([0.1, 1, 0])
    assert max(rates) == rates[100]
