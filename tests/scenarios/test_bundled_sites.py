"""Every bundled site on a twin: its scripts are accepted, jobs run, and discovery finds its facts."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from slurmgen import Request, Site, load_site, render, resolve
from slurmgen.sites.discover.compare import differences
from slurmgen.sites.discover.profile import Fact
from slurmgen.sites.profiles import profile_paths
from tests.plan.test_without_gpus import ACCEPTING
from tests.scenarios.conftest import Site as Place
from tests.support.golden import golden_requests

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.sbatch"))
REQUESTS = golden_requests()
SITES = [name for name in profile_paths(personal=False) if name != "generic"]
HELLO = "import os; print('rank', os.environ['SLURM_PROCID'], 'of', os.environ['SLURM_NTASKS'])\n"
OF_THIS_MACHINE = {"architecture", "container.engine"}
"Facts that discovery finds without Slurm, so a twin has those of this machine."
TIMES_AND_NODES = ("max_time", "max_nodes", "min_nodes", "whole_nodes")
"Facts of a partition that Slurm knows; limits of GPUs need its accounting."


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_sbatch_accepts_the_golden_script(path: Path, site: Callable[[str], Place]) -> None:
    place = site(path.name.partition(".")[0])
    place.testbed.run("sbatch", "--test-only", str(path))


@pytest.fixture(scope="module")
def on_two_nodes(site: Callable[[str], Place]) -> dict[str, str]:
    """The id of a job of each site, submitted together: each waits up to a second for its scheduler."""
    return {name: _submitted(site(name)) for name in SITES}


def _submitted(place: Place) -> str:
    name = place.name
    request = structs.replace(
        REQUESTS[f"{name}.lightning.2nodes"][1],
        script="hello.py",
        container="none",
        python_env=f"venv:{Path(sys.executable).parent.parent}",
        time="00:05:00" if name not in HOURLY else None,
    )
    (place.project / "hello.py").write_text(HELLO)
    (place.project / "job.sbatch").write_text(render(resolve(request, load_site(name))))
    script = f"{place.project}/job.sbatch"
    return place.testbed.run("sbatch", "--parsable", f"--chdir={place.project}", script).strip()


@pytest.mark.parametrize("name", SITES)
def test_a_job_on_two_nodes_runs(
    name: str, site: Callable[[str], Place], on_two_nodes: dict[str, str]
) -> None:
    place, job = site(name), on_two_nodes[name]
    assert place.testbed.wait(job, 240) == "COMPLETED"
    log = next(place.project.glob(f"*-{job}.out")).read_text()
    ranks = resolve(REQUESTS[f"{name}.lightning.2nodes"][1], load_site(name)).world_size
    assert sorted(line for line in log.splitlines() if line.startswith("rank")) == sorted(
        f"rank {rank} of {ranks}" for rank in range(ranks)
    )


@pytest.mark.parametrize("name", ACCEPTING)
def test_sbatch_accepts_a_job_without_gpus(name: str, site: Callable[[str], Place]) -> None:
    place = site(name)
    asked = Request(gpus=0, cpus=8, script="prep.py", account="project1")
    (place.project / "cpus.sbatch").write_text(render(resolve(asked, load_site(name))))
    place.testbed.run("sbatch", "--test-only", f"{place.project}/cpus.sbatch")


def test_a_job_without_gpus_runs(site: Callable[[str], Place]) -> None:
    place = site("olivia")
    asked = Request(gpus=0, cpus=8, command=("nproc",), account="project1", time="00:05:00")
    (place.project / "cpus.sbatch").write_text(render(resolve(asked, load_site("olivia"))))
    options = ("--parsable", "--wait", f"--chdir={place.project}", "--output=cpus.out")
    place.testbed.run("sbatch", *options, f"{place.project}/cpus.sbatch")
    assert (place.project / "cpus.out").read_text().strip().isdigit()


HOURLY = {name for name in SITES if load_site(name).limits.min_time}


@pytest.mark.parametrize("name", SITES)
def test_discovery_finds_the_facts_of_the_profile(name: str, site: Callable[[str], Place]) -> None:
    differing = [difference.key for difference in differences(load_site(name), site(name).queried)]
    assert set(differing) <= OF_THIS_MACHINE


@pytest.mark.parametrize("name", SITES)
def test_the_discovered_facts_give_the_same_scripts(name: str, site: Callable[[str], Place]) -> None:
    bundled = load_site(name)
    discovered = _with_facts(bundled, site(name).queried.facts)
    for key, (site_name, request) in REQUESTS.items():
        if site_name == name:
            assert render(resolve(request, discovered)) == render(resolve(request, bundled)), key


def _with_facts(site: Site, facts: Iterable[Fact]) -> Site:
    """A profile with these facts, whose nodes, and times and nodes of partitions, are only these."""
    data = msgspec.to_builtins(site)
    data.pop("node", None)
    for partition in data.get("partitions", {}).values():
        for key in TIMES_AND_NODES:
            partition.pop(key, None)
    for fact in facts:
        if _is_of_the_site(site, fact):
            table = data
            for key in fact.keys[:-1]:
                table = table.setdefault(key, {})
            table[fact.keys[-1]] = fact.value or table.get(fact.keys[-1], fact.value)
    return msgspec.convert(data, Site)


def _is_of_the_site(site: Site, fact: Fact) -> bool:
    """Whether a twin has the fact from its profile: it makes up what the profile does not state."""
    table, *keys = fact.keys
    if table == "partitions":
        return keys[0] in site.partitions
    if table == "node":
        return getattr(site.node, keys[0]) is not None
    return table not in ("architecture", "container")
