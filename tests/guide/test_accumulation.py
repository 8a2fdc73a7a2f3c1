"""docs/guide/accumulation.md: what equals one large batch, and what does not."""

import re

import pytest

from .pages import shown_output
from .running import torchrun

LINE = re.compile(r"^(\w.*?)  +(\d+)  +(\d+)  +(\S+)$", re.M)
Row = tuple[int, int, float]


def rows(out: str) -> dict[str, Row]:
    """Steps, all-reduces and the largest difference, by the name of the variant."""
    return {name: (int(steps), int(calls), float(most)) for name, steps, calls, most in LINE.findall(out)}


@pytest.fixture(scope="module")
def printed() -> dict[str, Row]:
    completed = torchrun("accumulation.py")
    assert completed.returncode == 0, completed.err
    return rows(completed.out)


@pytest.mark.parametrize("name", ["accumulated", "accumulated, without no_sync"])
def test_accumulation_ends_with_the_weights_of_the_large_batch(printed: dict[str, Row], name: str) -> None:
    assert printed[name][2] < 1e-6


@pytest.mark.parametrize(
    "name",
    [
        "loss not divided",
        "loss / 4, also in the group of 3",
        "incomplete group dropped",
        "accumulated, BatchNorm",
    ],
)
def test_a_fault_ends_with_other_weights(printed: dict[str, Row], name: str) -> None:
    assert printed[name][2] > 1e-4


def test_no_sync_leaves_one_all_reduce_per_step(printed: dict[str, Row]) -> None:
    assert printed["accumulated"][:2] == (3, 3)
    assert printed["accumulated, without no_sync"][:2] == (3, 11)


def test_the_page_shows_what_the_script_prints(printed: dict[str, Row]) -> None:
    """The differences themselves depend on the machine."""
    command = "torchrun --standalone --nproc-per-node=2 examples/guide/accumulation.py"
    shown = rows(shown_output("accumulation", command))
    assert {name: row[:2] for name, row in shown.items()} == {name: row[:2] for name, row in printed.items()}
