"""`slurmgen preflight` and a job with `--preflight` on a twin, whose nodes are healthy or lack a GPU."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.ledger.bad_nodes import BadNodes, Place, bad_node
from tests.preflight.test_faults import NVIDIA_SMI
from tests.scenarios.conftest import Job, Site
from tests.support.programs import write_programs

ACCOUNT = ["--account", "ewi-insy-prb"]


@pytest.fixture(scope="module")
def daic(site: Callable[[str], Site]) -> Site:
    return site("daic")


def report(site: Site, job: str) -> dict[str, object]:
    """The file that the check leaves in the job's folder."""
    (path,) = (site.testbed.folder / "remote").rglob(f".preflight-{job}.json")
    found: dict[str, object] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def bad(daic: Site) -> Job:
    """A job of two nodes, of which the second has a GPU less than the job requests."""
    (daic.project / "train.py").write_text("print('training')\n")
    text = NVIDIA_SMI.format(gpus='"$((2 - SLURM_NODEID))"', used=0, ecc=0, slow="Not Active")
    programs = write_programs(daic.testbed.folder / "programs", {"nvidia-smi": text})
    path = ["--env", f"PATH={programs}:$PATH"]
    size = ["--gpus", "4", "--nodes", "2", "--framework", "ddp"]
    return daic.ended(daic.submit("--site", "daic", *size, "--script", "train.py", "--preflight", *path))


def test_a_job_on_a_bad_node_ends_with_79_before_training(daic: Site, bad: Job) -> None:
    assert (bad.state, bad.exit_code) == ("FAILED", "79:0"), bad.log
    assert "training\n" not in bad.log
    nodes = report(daic, bad.id)["nodes"]
    found = [(one["node"], [fault["text"] for fault in one["findings"]]) for one in nodes]  # type: ignore[attr-defined]
    assert found == [(bad.nodes[0], []), (bad.nodes[1], ["1 GPU, but the others have 2"])]


def test_a_bad_node_that_a_check_of_nodes_alone_finds_healthy_is_cleared(daic: Site, bad: Job) -> None:
    assert f"node {bad.nodes[1]}: 1 GPU" in daic.slurmgen("status", bad.id).stdout
    assert bad.nodes[1] in daic.slurmgen("nodes", "--site", "daic").stdout
    remote = ["--remote-dir", str(daic.testbed.folder / "remote")]
    nodes = ["--nodelist", ",".join(bad.nodes)]
    reply = daic.slurmgen("preflight", "--site", "daic", *nodes, *ACCOUNT, *remote)
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert "preflight: verdict: 2 nodes, all healthy\n" in reply.stdout
    assert "forcing job termination" not in reply.stdout
    assert f"healthy, and no longer excluded from new jobs: {bad.nodes[1]}\n" in reply.stderr
    assert daic.slurmgen("nodes", "--site", "daic").stderr == "no bad node is remembered\n"


def test_a_node_that_is_checked_alone_stays_excluded_for_its_slow_product(daic: Site, bad: Job) -> None:
    name = bad.nodes[0]
    reports = BadNodes(Path(daic.testbed.environ["XDG_STATE_HOME"]) / "slurmgen" / "bad-nodes.sqlite")
    reports.add([bad_node(Place("daic"), name, "a product is slow", "1", checks=("slow", "product"))])
    remote = ["--remote-dir", str(daic.testbed.folder / "remote")]
    try:
        reply = daic.slurmgen("preflight", "--site", "daic", "--nodelist", name, *ACCOUNT, *remote)
        assert name in daic.slurmgen("nodes", "--site", "daic").stdout
    finally:
        reports.clear(reports.reports())  # other tests use this node
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert f"{name} stays excluded, since this job could not repeat: slow. Check it beside " in reply.stderr
