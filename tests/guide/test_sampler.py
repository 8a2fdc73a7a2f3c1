"""What DistributedSampler gives each rank, and an evaluation that counts each sample once."""

import re
import runpy
from pathlib import Path

import pytest

from .running import GUIDE, ranks_of, torchrun

split = runpy.run_path(str(GUIDE / "sampler.py"))["split"]


@pytest.mark.parametrize("options", [{}, {"shuffle": False}])
def test_the_sampler_repeats_samples_until_all_ranks_have_as_many(options: dict[str, bool]) -> None:
    parts = split(10, 4, **options)
    assert [len(part) for part in parts] == [3, 3, 3, 3]
    assert {index for part in parts for index in part} == set(range(10))


def test_drop_last_leaves_samples_out_instead() -> None:
    seen = [index for part in split(10, 4, shuffle=False, drop_last=True) for index in part]
    assert sorted(seen) == list(range(8))


def test_without_set_epoch_the_order_is_that_of_epoch_0() -> None:
    assert split(1000, 2) == split(1000, 2, epoch=0)


def test_set_epoch_changes_the_order() -> None:
    assert split(1000, 2, epoch=0) != split(1000, 2, epoch=1)


def test_padding_changes_the_accuracy_and_unequal_shares_do_not() -> None:
    completed = torchrun("sampler_evaluation.py")
    assert re.findall(r"(\d+) of (\d+) correct", completed.out) == [("100", "102"), ("100", "101")]


def test_an_evaluation_works_if_shares_are_unequal() -> None:
    """Three ranks have 34, 34 and 33 samples."""
    completed = torchrun("sampler_evaluation.py", ranks=3)
    assert ("100", "101") in re.findall(r"(\d+) of (\d+) correct", completed.out), completed.err


TWICE = """
import sys
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(range(16), batch_size=2, sampler=DistributedSampler(range(16))))
sys.stdout.write(f"rank {accelerator.process_index} {sum(len(batch) for batch in loader)}\\n")
accelerator.wait_for_everyone()
accelerator.end_training()
"""


def test_accelerate_divides_a_distributed_sampler_a_second_time(tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(TWICE)
    assert ranks_of(torchrun(script).out) == {0: ["4"], 1: ["4"]}
