"""The memory arithmetic of docs/guide/parallelism.md, and parallelism by hand."""

import re
import runpy

import pytest

from .running import GUIDE, torchrun

MEMORY = runpy.run_path(str(GUIDE / "parallelism.py"))


@pytest.mark.parametrize(("recipe", "total"), [("mixed", 16), ("autocast", 18)])
def test_adam_needs_16_or_18_bytes_per_parameter(recipe: str, total: int) -> None:
    assert sum(MEMORY["RECIPES"][recipe].values()) == total


@pytest.mark.parametrize(
    ("kind", "gigabytes"), [("DDP", 120.0), ("ZeRO-1", 31.4), ("ZeRO-2", 16.6), ("FSDP, ZeRO-3", 1.9)]
)
def test_the_arithmetic_agrees_with_figure_1_of_the_zero_paper(kind: str, gigabytes: float) -> None:
    """7.5 billion parameters on 64 GPUs."""
    each = MEMORY["bytes_per_parameter"](MEMORY["MIXED"], MEMORY["SHARDED"][kind], 64)
    assert round(7.5 * each, 1) == gigabytes


def test_data_tensor_and_pipeline_parallelism_compute_the_loss_of_one_process() -> None:
    completed = torchrun("parallelism_by_hand.py")
    losses = re.findall(r"^(\w+) +loss ([\d.]+)$", completed.out, re.M)
    assert [kind for kind, _ in losses] == [
        "one_process",
        "data_parallel",
        "tensor_parallel",
        "pipeline_parallel",
    ]
    assert [float(loss) for _, loss in losses] == [pytest.approx(float(losses[0][1]), rel=1e-4)] * 4


def test_the_script_by_hand_refuses_another_number_of_ranks() -> None:
    completed = torchrun("parallelism_by_hand.py", ranks=1)
    assert "error: this script needs exactly two ranks" in completed.err
