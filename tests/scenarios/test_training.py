"""Rendered, sent over SSH, run by a real Slurm: do the ranks start as the plan says?"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from slurmgen import Request, load_site, render, resolve
from tests.conftest import REPOSITORY
from tests.scenarios.conftest import BIN, Job, Site

FRAMEWORKS = ("ddp", "srun", "lightning", "accelerate")
# Every pair of site, framework and nodes.
CASES = {
    "daic": {("ddp", 1), ("srun", 2), ("lightning", 1), ("accelerate", 2)},
    "olivia": {("ddp", 2), ("srun", 1), ("lightning", 2), ("accelerate", 1)},
}
SHORT = ["--data", "synthetic", "--limit", "256", "--epochs", "1"]
QUICK = ["--", "--task", "mnist", *SHORT]
Start = Callable[[str], Site]


def request(framework: str, nodes: int, site: str) -> list[str]:
    script = f"training/train_{'ddp' if framework == 'srun' else framework}.py"
    size = ["--gpus", str(2 * nodes), "--nodes", str(nodes)]
    return ["--site", site, "--framework", framework, *size, "--script", script]


@pytest.fixture(scope="module")
def submitted(site: Start) -> Callable[[str], dict[tuple[str, int], str]]:
    """The jobs of a site, in the queue at once; Slurm runs as many as there are GPUs for."""

    def submit(name: str) -> dict[tuple[str, int], str]:
        jobs = sorted(CASES[name])
        return {job: site(name).submit(*request(*job, name), *QUICK) for job in jobs}

    return cache(submit)  # one site after the other, because each rank takes 300 MB


def ranks(job: Job) -> list[tuple[int, int, str]]:
    """Rank, world size and node of each line in which a rank reports itself."""
    lines = re.findall(r"^rank (\d+)/(\d+) local_rank \d+ host (\S+) ", job.log, re.MULTILINE)
    return [(int(rank), int(world), host) for rank, world, host in lines]


def assert_trained(job: Job, world_size: int) -> None:
    assert (job.state, job.exit_code) == ("COMPLETED", "0:0"), job.log
    found = ranks(job)
    assert sorted(rank for rank, _, _ in found) == list(range(world_size)), job.log
    assert {world for _, world, _ in found} == {world_size}
    per_node = world_size // len(job.nodes)
    assert {rank: host for rank, _, host in found} == {
        rank: job.nodes[rank // per_node] for rank in range(world_size)
    }
    ends = re.findall(r"^rank \d+/\d+ final_loss (\S+) params (\S+)$", job.log, re.MULTILINE)
    assert Counter(ends) == {ends[0]: world_size}


@pytest.mark.parametrize(
    ("name", "framework", "nodes"), [(name, *job) for name, jobs in CASES.items() for job in sorted(jobs)]
)
def test_every_rank_reports_once_and_all_agree_on_the_loss(
    name: str,
    framework: str,
    nodes: int,
    site: Start,
    submitted: Callable[[str], dict[tuple[str, int], str]],
) -> None:
    """Ranks are numbered node by node, so that rank 0 is on the first."""
    assert_trained(site(name).ended(submitted(name)[framework, nodes]), 2 * nodes)


def test_c10d_rendezvous_brings_all_ranks_together(site: Start) -> None:
    """Which node gets rank 0 is left to it."""
    daic = site("daic")
    job = daic.ended(daic.submit(*request("ddp", 2, "daic"), "--rendezvous", "c10d", *QUICK))
    assert job.state == "COMPLETED", job.log
    assert sorted(ranks(job)) == [(rank, 4, host) for rank, _, host in sorted(ranks(job))]
    assert [rank for rank, _, _ in sorted(ranks(job))] == [0, 1, 2, 3]


def test_python_is_one_process(site: Start) -> None:
    daic = site("daic")
    args = ["--site", "daic", "--framework", "python", "--script", "training/train_ddp.py"]
    assert_trained(daic.ended(daic.submit(*args, *QUICK)), 1)


def test_uv_makes_the_environment_once_and_the_step_runs_its_python(site: Start) -> None:
    """A real uv and a project without dependencies, so that nothing is fetched."""
    testbed = site("daic").testbed
    (testbed.folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\n[tool.uv]\npackage = false\n'
    )
    (testbed.folder / "where.py").write_text("import sys\nprint(sys.prefix)\n")
    asked = Request(framework="python", account="a", script="where.py", python_env="uv")
    text = render(resolve(asked, load_site("daic")))
    log = testbed.batch(text, PATH=f"{BIN}:/usr/bin:/bin", UV_OFFLINE="1")
    assert f"{testbed.folder / '.venv'}\n" in log


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_rank_that_fails_ends_the_job_at_once(framework: str, site: Start) -> None:
    daic = site("daic")
    two_ranks = [*request(framework, 2, "daic"), "--gpus", "2"]
    job = daic.ended(daic.submit(*two_ranks, *QUICK, "--crash-rank", "1"))
    assert job.state == "FAILED", job.log  # not TIMEOUT, which would take two hours
    assert not job.exit_code.startswith("0:")


def commands() -> dict[str, tuple[str, int]]:
    """The commands of the page about published scripts, with the ranks that it promises."""
    page = (REPOSITORY / "docs" / "tutorial-scripts.md").read_text()
    found = re.findall(r"(\d+) ranks:\n\n```console\n\$ slurmgen submit (.*)\n```", page)
    assert len(found) == page.count("```console")
    return {line: (line.split()[1], int(count)) for count, line in found}


@pytest.mark.parametrize("line", commands())
def test_the_request_that_replaces_a_published_script_runs(line: str, site: Start) -> None:
    name, world_size = commands()[line]
    place = site(name)
    job = place.ended(place.submit(*line.split(), *SHORT))
    assert_trained(job, world_size)
