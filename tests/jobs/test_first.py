"""submit --first: one of several sites is chosen once, and whatever breaks, there is one job."""

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from slurmgen.cli.submit_first import choose
from slurmgen.errors import CommandFailed
from slurmgen.job_spec import JobOptions
from slurmgen.jobs import first
from slurmgen.jobs.ledger import Ledger
from slurmgen.jobs.prepare import prepare
from slurmgen.jobs.recorded_request import with_request
from slurmgen.jobs.where import Option
from slurmgen.remote.route import Route
from slurmgen.request import Request
from tests.conftest import Run
from tests.support.first_faults import JOB, jobs_at, jobs_of, trial, user_of
from tests.support.twins import Testbed, twin


@pytest.fixture(scope="module")
def sites(testbed: Testbed) -> Iterator[Mapping[str, Testbed]]:
    with twin("daic", nodes=1) as daic:
        yield {"generic": testbed, "daic": daic}


@pytest.fixture
def project(sites: Mapping[str, Testbed]) -> Iterator[Path]:
    with user_of(sites) as folder:
        yield folder


def test_a_killed_client_leaves_one_job_though_the_other_site_would_start_first_now(
    project: Path, sites: Mapping[str, Testbed]
) -> None:
    chance = random.Random(1)  # noqa: S311
    struck = [trial(project, sites, number, chance) for number in range(6)]
    assert any(struck)


def test_the_command_submits_to_one_of_the_sites_and_says_why(
    project: Path, sites: Mapping[str, Testbed], slurmgen: Run
) -> None:
    words = "submit --first generic --first daic --via twin --framework python --script train.py --gpus 0"
    words += " --time 00:05:00 --account a --python-env none --sbatch hold --name once"
    both = slurmgen(*words.split(), "--site", "daic", cwd=project, env=dict(os.environ))
    assert (both.returncode, "exclude each other" in both.stderr) == (2, True)
    (project / "own.sbatch").write_text("#!/bin/bash\n")
    script = slurmgen("submit", "own.sbatch", "--first", "daic", cwd=project, env=dict(os.environ))
    assert (script.returncode, "own.sbatch is a batch script" in script.stderr) == (2, True)
    reply = slurmgen(*words.split(), cwd=project, env=dict(os.environ))
    assert reply.returncode == 0, reply.stderr
    assert "it would start first there, in " in reply.stderr
    (record,) = Ledger().all()
    assert record.id == reply.stdout.strip()
    assert [jobs_of(sites[name], "once") for name in sites if name != record.site] == [[]]
    assert jobs_of(sites[record.site], "once") == [record.id]
    sites[record.site].run("scancel", record.id)


def test_an_unsettled_choice_is_kept_and_no_other_site_is_sent_anything(
    project: Path, sites: Mapping[str, Testbed]
) -> None:
    jobs = jobs_at(project, "kept")
    command = first.fingerprint([*jobs.values()])
    assert command == first.fingerprint([*reversed(jobs.values())])

    def prepared(site: str) -> object:
        plan = jobs[site].plan()
        route = Route(site=site, via="twin")
        return with_request(prepare(plan, jobs[site].render(plan), route, project), jobs[site])

    assert first.earlier(command) is None
    first.claim(prepared("daic"), command)  # type: ignore[arg-type]
    choice = first.earlier(command)
    assert choice
    assert choice.site == "daic"
    with pytest.raises(CommandFailed, match="submits the same job to daic, and not to generic"):
        first.claim(prepared("generic"), command)  # type: ignore[arg-type]
    assert jobs_of(sites["generic"], "kept") == jobs_of(sites["daic"], "kept") == []


def test_a_command_for_another_remote_folder_is_another_submission(
    project: Path, sites: Mapping[str, Testbed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key has its records in one folder, so that it must not be used in another one."""
    monkeypatch.chdir(project)
    options = JobOptions(request=Request(name="moved", **JOB))  # type: ignore[arg-type]
    folders = (None, "elsewhere", "elsewhere")
    own, other, same = (choose(options, [*sites], {"via": "twin"}, to, again=False)[1] for to in folders)
    assert own != other == same


def test_without_a_site_that_could_run_the_job_there_is_an_error_with_each_reason() -> None:
    options = [Option(site="a", refused="too large"), Option(site="b", error="down")]
    with pytest.raises(CommandFailed, match=r"no site could run the job: a: too large; b: down\."):
        first.best(options)
    assert first.best([Option(site="c", partition="p", wait=5), *options]).partition == "p"
