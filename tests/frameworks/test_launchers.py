"""--framework jax, mpi, spawn and tensorflow on a twin: the pages of docs/launchers and their scripts."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.sites.model import Launch

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
ENVIRONMENTS = {
    "jax": BUILT / "jax",
    "mpi": BUILT / "mpi4py",  # with MPICH
    "spawn": Path(sys.executable).parent.parent,
    "tensorflow": BUILT / "tensorflow",
}


def script(framework: str) -> str:
    return (PORTS if framework == "tensorflow" else "") + example(framework)


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    with two_nodes(request.param, ENVIRONMENTS[request.param]) as jobs:
        yield jobs


def test_every_rank_reports_once(jobs: Jobs) -> None:
    """A worker of TensorFlow has one replica, its CPU."""
    state, log = jobs.run(script(jobs.framework))
    assert state == "COMPLETED", log
    ranks = [(str(rank), "4", "4") for rank in range(4)]
    assert sums(log) == ([("0", "", "2"), ("1", "", "2")] if jobs.framework == "tensorflow" else ranks)


def test_one_failing_rank_ends_the_job(jobs: Jobs) -> None:
    """Without `-m mpi4py` it would wait in MPI_Finalize, and the job would run until its time limit."""
    rank = "world.rank" if jobs.framework == "mpi" else "rank"
    state, log = jobs.run(with_fault(script(jobs.framework), "total =", rank))
    assert (state, sums(log)) == ("FAILED", [])
    assert "ValueError: a fault" in log
    assert "DEADLINE_EXCEEDED" not in log, "the others ended by a time limit of their own"


@pytest.mark.parametrize("jobs", ["mpi"], indirect=True)
def test_the_script_names_a_wrong_type_of_mpi(jobs: Jobs) -> None:
    wrong = structs.replace(jobs.site, launch=Launch(mpi="none"))
    state, log = Jobs(jobs.testbed, wrong, "mpi", jobs.environment).run(script("mpi"))
    assert (state, sums(log)) == ("FAILED", [])
    assert "MPI did not find the other ranks" in log
