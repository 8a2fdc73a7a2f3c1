"""The page on uneven load: the script names the slowest rank, and the join context ends uneven epochs."""

import re
import socket
from collections.abc import Callable

import pytest

from tests.guide.running import run_ranks, torchrun
from tests.support.ranks import Ended

DELAY = 1000  # ms; much more than a busy machine delays the median of five steps


@pytest.mark.parametrize(("slow", "start"), [(0, torchrun), (1, run_ranks)])
def test_the_slowest_rank_is_named_and_the_other_one_waits_for_it(
    slow: int, start: Callable[..., Ended]
) -> None:
    done = start("uneven_load.py", "--steps", "5", "--slow-rank", str(slow), "--slow-ms", str(DELAY))
    assert done.returncode == 0, done.err
    assert f"slowest: rank {slow} on {socket.gethostname()}" in done.out
    waits = dict(re.findall(r"^rank (\d) .* waits ([\d.]+) ms$", done.out, re.M))
    assert float(waits[str(1 - slow)]) > float(waits[str(slow)]) == 0


@pytest.fixture(scope="module")
def joined() -> Ended:
    return torchrun("uneven_load_join.py")


@pytest.mark.parametrize(("rank", "steps"), [(0, 3), (1, 5)])
def test_with_join_each_rank_trains_on_all_its_batches(joined: Ended, rank: int, steps: int) -> None:
    assert f"rank {rank} made {steps} steps; the weights of all ranks are equal" in joined.out


def test_without_its_own_batches_a_rank_can_end_the_epoch_of_all() -> None:
    out = run_ranks("uneven_load_join.py", "--stop-early").out
    assert "rank 0 stops: Rank 0 exhausted all inputs." in out
    assert "rank 1 made 3 steps; the weights of all ranks are equal" in out
