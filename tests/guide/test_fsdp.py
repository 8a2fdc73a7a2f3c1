"""docs/guide/fsdp.md: its script and its statements."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.support.ranks import Ended

from .pages import shown_output
from .running import run_ranks, torchrun

SCRIPT = "fsdp.py"
close = partial(pytest.approx, abs=3e-4)  # the last digit varies with kernels and ranks
ONE_RANK_BYTES = {"parameters": 534056, "gradients": 534056, "optimizer": 1068112}
FAULTS = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
{fault}
dist.destroy_process_group()
"""


def losses(done: Ended) -> list[float]:
    """Loss and norm of each step."""
    assert done.returncode == 0, done.err
    steps = re.findall(r"rank 0 step \d+ loss ([\d.]+) norm ([\d.]+)", done.out)
    return [float(value) for step in steps for value in step]


def kept(done: Ended, rank: int = 0) -> dict[str, int]:
    """The bytes that a rank reported."""
    assert done.returncode == 0, done.err
    (line,) = re.findall(rf"rank {rank} bytes: (.* forward \d+)", done.out)
    return {name: int(count) for name, count in (item.rsplit(" ", 1) for item in line.split(", "))}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fsdp") / "three"


@pytest.fixture(scope="module")
def two(saved: Path) -> Ended:
    return torchrun(SCRIPT, "--steps", "3", "--save", str(saved))


@pytest.fixture(scope="module")
def one() -> Ended:
    return run_ranks(SCRIPT, "--steps", "6", ranks=1)


def test_two_ranks_learn_what_one_rank_learns(two: Ended, one: Ended) -> None:
    assert losses(two) == close(losses(one)[:6])


def test_the_page_shows_the_output(two: Ended) -> None:
    command = "torchrun --standalone --nproc-per-node=2 examples/guide/fsdp.py --steps 3 --save runs/three"
    shown = Ended([0], shown_output("fsdp", command), "")
    assert (losses(two), kept(two)) == (close(losses(shown)), kept(shown))


def test_each_of_two_ranks_keeps_half_of_everything(two: Ended) -> None:
    half = {name: count // 2 for name, count in ONE_RANK_BYTES.items()}
    for rank in (0, 1):
        assert half.items() <= kept(two, rank).items()


def test_after_the_forward_pass_only_the_head_is_gathered(two: Ended) -> None:
    head = (64 * 10 + 10) * 4
    assert kept(two)["after forward"] - kept(two)["parameters"] == head // 2


def test_keep_gathered_holds_all_parameters_after_the_forward_pass(one: Ended) -> None:
    done = run_ranks(SCRIPT, "--steps", "3", "--keep-gathered", "--save-memory")
    assert kept(done)["after forward"] == ONE_RANK_BYTES["parameters"]
    assert losses(done) == close(losses(one)[:6])


def test_bf16_keeps_fp32_shards_and_changes_the_loss_a_little(two: Ended) -> None:
    done = run_ranks(SCRIPT, "--steps", "3", "--precision", "bf16")
    assert kept(done)["parameters"] == kept(two)["parameters"]
    last = [losses(run)[-2] for run in (done, two)]
    assert last[0] == pytest.approx(last[1], abs=0.02)
    assert last[0] != last[1]


def test_a_sharded_checkpoint_of_two_ranks_continues_on_one(two: Ended, saved: Path, one: Ended) -> None:
    assert losses(two)
    done = run_ranks(SCRIPT, "--steps", "3", "--load", str(saved), ranks=1)
    assert losses(done) == close(losses(one)[6:])


def test_the_full_state_dict_is_a_plain_file(two: Ended, saved: Path) -> None:
    import torch

    assert losses(two)
    weights = torch.load(saved / "model.pt")
    assert sum(weight.nbytes for weight in weights.values()) == ONE_RANK_BYTES["parameters"]
    assert {type(weight) for weight in weights.values()} == {torch.Tensor}


def test_an_optimizer_from_before_fully_shard_trains_nothing(tmp_path: Path) -> None:
    fault = """
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
fully_shard(model)
before = model.weight.full_tensor().clone()
model(torch.ones(1, 4)).sum().backward()
optimizer.step()
print("unchanged", torch.equal(before, model.weight.full_tensor()))
"""
    script = tmp_path / "fault.py"
    script.write_text(FAULTS.format(fault=fault))
    assert "unchanged True" in run_ranks(script).out


def test_forward_without_the_hooks_fails_with_the_message_of_the_page(tmp_path: Path) -> None:
    script = tmp_path / "fault.py"
    script.write_text(FAULTS.format(fault="fully_shard(model)\nmodel.forward(torch.ones(1, 4))"))
    assert "got mixed torch.Tensor and DTensor" in run_ranks(script).err


def test_the_old_default_auto_wrap_policy_does_not_exist() -> None:
    from torch.distributed.fsdp import wrap

    assert not hasattr(wrap, "default_auto_wrap_policy")
