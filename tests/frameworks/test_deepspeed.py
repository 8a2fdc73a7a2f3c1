"""docs/guide/deepspeed.md: its script with each ZeRO stage, on two CPU ranks with gloo."""

import re
from pathlib import Path

import pytest

from tests.guide.running import GUIDE, run
from tests.support.ranks import Ended

from .environments import PYTHON, variables

LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
STAGES = range(4)


def train(folder: Path, stage: int, *more: str) -> Ended:
    asked = ["--run-dir", str(folder / str(stage)), "--stage", str(stage), *more]
    command = [PYTHON["deepspeed"], *LAUNCH, GUIDE / "deepspeed_zero.py", *asked]
    return run(*command, env=variables("deepspeed"))


def losses(out: str) -> dict[str, str]:
    """The last loss by rank."""
    return dict(re.findall(r"rank (\d) step \d+ loss ([\d.]+)", out))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zero")


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[int, Ended]:
    return {stage: train(folder, stage) for stage in STAGES}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_learns_the_same(stage: int, runs: dict[int, Ended]) -> None:
    assert runs[stage].returncode == 0, runs[stage].err
    assert losses(runs[stage].out) == losses(runs[0].out)
    assert losses(runs[stage].out).keys() == {"0", "1"}


def test_the_global_batch_is_the_product_of_three_numbers(runs: dict[int, Ended]) -> None:
    assert re.findall(r"batch \d+ = \d+ \* \d+ \* \d+", runs[2].out) == ["batch 64 = 16 * 2 * 2"] * 2


@pytest.mark.parametrize("stage", STAGES)
def test_a_checkpoint_continues(stage: int, runs: dict[int, Ended], folder: Path) -> None:
    assert runs[stage].returncode == 0, runs[stage].err
    done = train(folder, stage, "--steps", "5")
    assert done.returncode == 0, done.err
    assert set(re.findall(r"rank \d step (\d+) loss", done.out)) == {"5"}


def test_three_batch_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    text = (GUIDE / "deepspeed_zero.py").read_text()
    script.write_text(text.replace("CONFIG = {", 'CONFIG = {\n    "train_batch_size": 32,'))
    done = run(PYTHON["deepspeed"], *LAUNCH, script, "--run-dir", tmp_path, env=variables("deepspeed"))
    assert "32 != 16 * 2 * 2" in done.err + done.out
