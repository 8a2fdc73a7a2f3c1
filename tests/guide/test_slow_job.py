"""docs/guide/slow-job.md: where the time of a step goes."""

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.ranks import Ended

from .running import GUIDE, ranks_of, run_ranks, torchrun

SCRIPT = runpy.run_path(str(GUIDE / "slow_job.py"))
Shares = dict[str, int]


def shares(completed: Ended) -> dict[int, Shares]:
    """The percentages by rank and part."""
    assert completed.returncode == 0, completed.err
    lines = {rank: re.findall(r"(\w+) (\d+)%", line) for rank, (line,) in ranks_of(completed.out).items()}
    return {rank: {name: int(share) for name, share in parts} for rank, parts in lines.items()}


def test_the_shares_of_each_rank_make_a_whole_and_each_writes_a_trace(tmp_path: Path) -> None:
    found = shares(torchrun("slow_job.py", "--trace", str(tmp_path / "trace")))
    for rank in (0, 1):
        events = json.loads((tmp_path / f"trace-{rank}.json").read_text())["traceEvents"]
        assert any(event.get("name", "").startswith("ProfilerStep") for event in events)
    assert [abs(sum(parts.values()) - 100) <= 1 for _, parts in sorted(found.items())] == [True, True]


def test_the_rank_that_waits_in_the_all_reduce_is_not_the_slow_one() -> None:
    # Much more than a busy machine delays a step.
    found = shares(run_ranks("slow_job.py", "--fault", "slow-rank", "--pause", "0.5"))
    assert found[0]["communication"] > found[0]["waiting"]
    assert found[1]["waiting"] > found[1]["communication"]


@pytest.mark.parametrize(
    ("spans", "time"),
    [([(0, 2), (1, 3)], 3), ([(0, 1), (2, 3)], 2), ([(0, 10)], 4), ([(0, 4), (1, 2)], 4), ([], 0)],
)
def test_overlapping_events_count_once(spans: list[tuple[int, int]], time: int) -> None:
    events = [SimpleNamespace(time_range=SimpleNamespace(start=start, end=end)) for start, end in spans]
    assert SCRIPT["covered"](events, 0, 4) == time
