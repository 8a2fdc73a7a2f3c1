"""Averaged gradients equal DDP and one process with the whole batch."""

import re

import pytest

from .running import run_ranks


@pytest.fixture(scope="module", params=[2, 4])
def differences(request: pytest.FixtureRequest) -> dict[str, tuple[float, float]]:
    """By kind: the difference of the weights from one process, and between ranks."""
    completed = run_ranks("data_parallelism.py", ranks=request.param)
    assert completed.returncode == 0, completed.err
    found = re.findall(r"^(\w+) +from one process (\S+), between ranks (\S+)$", completed.out, re.M)
    return {kind: (float(expected), float(ranks)) for kind, expected, ranks in found}


@pytest.mark.parametrize("kind", ["by_hand", "with_ddp"])
def test_averaged_gradients_give_the_weights_of_one_process(
    kind: str, differences: dict[str, tuple[float, float]]
) -> None:
    assert differences[kind][0] < 1e-5


@pytest.mark.parametrize("kind", ["by_hand", "with_ddp"])
def test_all_ranks_have_equal_weights_to_the_bit(
    kind: str, differences: dict[str, tuple[float, float]]
) -> None:
    assert differences[kind][1] == 0


def test_ranks_that_do_not_communicate_diverge(differences: dict[str, tuple[float, float]]) -> None:
    assert min(differences["without_communication"]) > 1e-2
