"""docs/launchers/ray.md: Ray on both nodes of a twin, with the script of the page."""

import re

import pytest

from tests.support.twins import Testbed

from .jobs import EXAMPLES, Ended, request, run_job

FAILING = "import ray, sys\nray.init()\nprint(len(ray.nodes()), 'nodes')\nsys.exit(7)\n"


@pytest.fixture(scope="module")
def trained(testbed: Testbed) -> Ended:
    return run_job(testbed, "ray", request("ray", str(EXAMPLES / "ray_gpus.py")))


def test_every_gpu_of_both_nodes_gets_one_task(trained: Ended) -> None:
    found = re.findall(r"^task (\d) node (\w+) gpu (\d)$", trained.log, re.MULTILINE)
    assert [number for number, _, _ in found] == ["0", "1", "2", "3"], trained.log
    assert len({(node, gpu) for _, node, gpu in found}) == 4
    assert len({node for _, node, _ in found}) == 2


def test_the_job_ends_with_its_program(trained: Ended) -> None:
    assert (trained.state, trained.exit_code) == ("COMPLETED", "0:0"), trained.log


def test_the_exit_status_of_the_program_is_that_of_the_job(testbed: Testbed) -> None:
    (testbed.folder / "failing.py").write_text(FAILING)
    job = run_job(testbed, "ray", request("ray", "failing.py"))
    assert "2 nodes" in job.log
    assert (job.state, job.exit_code) == ("FAILED", "7:0"), job.log
