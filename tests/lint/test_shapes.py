"""What the reader says of the size of a step is what a real Slurm gives; tests/lint/shapes.py tries more."""

import pytest

from tests.lint import shapes
from tests.support.twins import twin

STEPS = [
    ("--nodes=1 --gres=gpu:2 --ntasks-per-gpu=1", "", (1, 2, 1)),
    ("--nodes=1 --ntasks=1 --ntasks-per-node=2 --gres=gpu:2", "", (1, 1, 2)),
    ("--nodes=2 --ntasks-per-node=2 --gpus-per-task=1", "", (2, 4, 1)),
    ("--nodes=2 --tasks-per-node=2 --gpus-per-node=2", "-N1 -n2", (1, 2, 2)),
]


@pytest.mark.parametrize(("header", "step", "size"), STEPS)
def test_the_reader_derives_a_step_from_each_option_that_sets_its_size(
    header: str, step: str, size: tuple[int, int, int]
) -> None:
    assert shapes.said(f"#!/bin/bash\n#SBATCH {header}\nsrun {step} ./show.py\n") == size


def test_slurm_gives_the_steps_that_the_reader_derives() -> None:
    texts = [f"#!/bin/bash\n#SBATCH {header}\nsrun {step} ./show.py\n" for header, step, _ in STEPS]
    texts += shapes.scripts(8, seed=1)
    with twin("olivia", nodes=2) as testbed:
        sizes = shapes.given(testbed, texts)
    assert sum(size is not None for size in sizes) > len(STEPS)
    assert list(shapes.differences(texts, sizes)) == []
