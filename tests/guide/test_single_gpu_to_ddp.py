"""The steps of docs/guide/single-gpu-to-ddp.md lead from one script to the other, and both train."""

import ast
import re
from pathlib import Path

import pytest
import torch

from tests.support.ranks import Ended

from .pages import blocks
from .running import GUIDE, python, torchrun

BEFORE, AFTER = "single_gpu_to_ddp_before.py", "single_gpu_to_ddp.py"


def code(script: str) -> str:
    """A script without its docstring."""
    text = (GUIDE / script).read_text()
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno :])


def side(diff: str, signs: str) -> str:
    """The lines of a diff that begin with one of `signs`."""
    return "\n".join(line[1:] for line in diff.splitlines() if line[:1] in signs)


def test_the_steps_of_the_page_turn_one_script_into_the_other() -> None:
    text = code(BEFORE)
    for diff in blocks("single-gpu-to-ddp", "diff"):
        old = side(diff, " -")
        assert text.count(old) == 1, old
        text = text.replace(old, side(diff, " +"))
    assert text == code(AFTER)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("one")
    return python(BEFORE, cwd=folder), folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("two")
    return torchrun(AFTER, cwd=folder), folder


def accuracies(out: str) -> list[tuple[int, float]]:
    return [(int(epoch), float(value)) for epoch, value in re.findall(r"epoch (\d): accuracy (\S+)", out)]


def test_one_process_learns(one: tuple[Ended, Path]) -> None:
    assert accuracies(one[0].out)[-1][1] > 0.95, one[0].err


def test_two_ranks_learn_as_well(two: tuple[Ended, Path]) -> None:
    assert accuracies(two[0].out)[-1][1] > 0.95, two[0].err


def test_only_rank_0_prints(two: tuple[Ended, Path]) -> None:
    assert [epoch for epoch, _ in accuracies(two[0].out)] == [0, 1, 2, 3, 4]


def test_both_save_the_same_names(one: tuple[Ended, Path], two: tuple[Ended, Path]) -> None:
    first, second = (torch.load(folder / "model.pt", weights_only=True) for _, folder in (one, two))
    assert list(first) == list(second)
