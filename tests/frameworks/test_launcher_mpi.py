"""--framework mpi on a twin with MPICH: docs/launchers/mpi.md and its script."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from slurmgen.sites.model import Launch

from .environments import BUILT
from .launching import Jobs, example, sums, two_nodes, with_fault

SCRIPT = example("mpi")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with two_nodes("mpi", BUILT / "mpi4py") as jobs:
        yield jobs


def test_every_rank_reports_once(jobs: Jobs) -> None:
    state, log = jobs.run(SCRIPT)
    assert state == "COMPLETED", log
    assert sums(log) == [(str(rank), "4", "4") for rank in range(4)]


def test_one_failing_rank_ends_the_job(jobs: Jobs) -> None:
    """Without `-m mpi4py` it would wait in MPI_Finalize, and the job would run until its time limit."""
    state, log = jobs.run(with_fault(SCRIPT, "total =", "world.rank"))
    assert (state, sums(log)) == ("FAILED", [])
    assert "ValueError: a fault" in log


def test_the_script_names_a_wrong_type_of_mpi(jobs: Jobs) -> None:
    wrong = structs.replace(jobs.site, launch=Launch(mpi="none"))
    state, log = Jobs(jobs.testbed, wrong, "mpi", jobs.environment).run(SCRIPT)
    assert (state, sums(log)) == ("FAILED", [])
    assert "MPI did not find the other ranks" in log
