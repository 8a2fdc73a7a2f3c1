"""The page on uneven load: the script names the slowest rank, and the join context ends uneven epochs."""

import re
import socket

import pytest

from tests.guide.running import Completed, torchrun

DELAY = 400


@pytest.mark.parametrize("slow", [0, 1])
def test_the_slowest_rank_is_named(slow: int) -> None:
    done = torchrun("uneven_load.py", "--steps", "5", "--slow-rank", str(slow), "--slow-ms", str(DELAY))
    assert done.returncode == 0, done.err
    assert f"slowest: rank {slow} on {socket.gethostname()}" in done.out


def test_the_other_rank_waits_for_the_slowest() -> None:
    out = torchrun("uneven_load.py", "--steps", "5", "--slow-rank", "1", "--slow-ms", str(DELAY)).out
    waits = dict(re.findall(r"^rank (\d) .* waits ([\d.]+) ms$", out, re.M))
    assert float(waits["0"]) > float(waits["1"]) == 0


@pytest.fixture(scope="module")
def joined() -> Completed:
    return torchrun("uneven_load_join.py")


@pytest.mark.parametrize(("rank", "steps"), [(0, 3), (1, 5)])
def test_with_join_each_rank_trains_on_all_its_batches(joined: Completed, rank: int, steps: int) -> None:
    assert f"rank {rank} made {steps} steps; the weights of all ranks are equal" in joined.out


def test_without_its_own_batches_a_rank_can_end_the_epoch_of_all() -> None:
    out = torchrun("uneven_load_join.py", "--stop-early").out
    assert "rank 0 stops: Rank 0 exhausted all inputs." in out
    assert "rank 1 made 3 steps; the weights of all ranks are equal" in out
