"""--framework spawn on a twin: docs/launchers/spawn.md and its script."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .launching import Jobs, example, sums, two_nodes, with_fault

SCRIPT = example("spawn")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with two_nodes("spawn", Path(sys.executable).parent.parent) as jobs:
        yield jobs


def test_every_rank_reports_once(jobs: Jobs) -> None:
    state, log = jobs.run(SCRIPT)
    assert state == "COMPLETED", log
    assert sums(log) == [(str(rank), "4", "4") for rank in range(4)]


def test_one_failing_rank_ends_the_job(jobs: Jobs) -> None:
    state, log = jobs.run(with_fault(SCRIPT, "total =", "rank"))
    assert (state, sums(log)) == ("FAILED", [])
    assert "ValueError: a fault" in log
