"""--framework tensorflow on a twin: docs/guide/tensorflow.md and its script."""

from collections.abc import Iterator

import pytest

from .environments import BUILT
from .launching import Jobs, example, sums, two_nodes, with_fault

# The nodes of a twin are one machine, on which two workers cannot have the same port.
PORTS = """
import json, os
config = json.loads(os.environ["TF_CONFIG"])
workers = [address.rpartition(":") for address in config["cluster"]["worker"]]
assert len({port for _, _, port in workers}) == 1
config["cluster"]["worker"] = [f"{host}:{int(port) + i}" for i, (host, _, port) in enumerate(workers)]
os.environ["TF_CONFIG"] = json.dumps(config)
"""
SCRIPT = PORTS + example("tensorflow")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with two_nodes("tensorflow", BUILT / "tensorflow") as jobs:
        yield jobs


def test_every_worker_reports_once(jobs: Jobs) -> None:
    """Each has one replica, its CPU."""
    state, log = jobs.run(SCRIPT)
    assert state == "COMPLETED", log
    assert sums(log) == [("0", "", "2"), ("1", "", "2")]


def test_one_failing_worker_ends_the_job(jobs: Jobs) -> None:
    state, log = jobs.run(with_fault(SCRIPT, "total =", "rank"))
    assert (state, sums(log)) == ("FAILED", [])
    assert "ValueError: a fault" in log
