"""--framework jax on a twin: docs/launchers/jax.md and its script."""

from collections.abc import Iterator

import pytest

from .environments import BUILT
from .launching import Jobs, example, sums, two_nodes, with_fault

SCRIPT = example("jax")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with two_nodes("jax", BUILT / "jax") as jobs:
        yield jobs


def test_every_process_reports_once(jobs: Jobs) -> None:
    state, log = jobs.run(SCRIPT)
    assert state == "COMPLETED", log
    assert sums(log) == [(str(rank), "4", "4") for rank in range(4)]


def test_one_failing_process_ends_the_job(jobs: Jobs) -> None:
    state, log = jobs.run(with_fault(SCRIPT, "total =", "rank"))
    assert (state, sums(log)) == ("FAILED", [])
    assert "ValueError: a fault" in log
    assert "DEADLINE_EXCEEDED" not in log, "the others ended by a time limit of their own"
