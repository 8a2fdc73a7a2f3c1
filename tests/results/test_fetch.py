"""Results are fetched without losing anything, and only what no job needs is pruned."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger
from slurmgen.remote.local import LocalTransport
from slurmgen.results.fetch import list_results
from slurmgen.status.job import Job
from slurmgen.status.lookup import recorded_route
from tests.conftest import Run
from tests.support.terminals import terminal
from tests.support.twins import Testbed, eventually, settled

TRAIN = """
import os, pathlib
pathlib.Path("out/deep").mkdir(parents=True)
pathlib.Path("out/deep/model.pt").write_text("weights")
os.utime("out/deep/model.pt", (1, 1))
os.symlink("deep/model.pt", "out/last")
pathlib.Path("data").write_text("changed")
pathlib.Path("it's $(touch pwned)").write_text("x")
pathlib.Path(".venv").mkdir()
pathlib.Path(".venv/big").write_text("x")
"""
WAY = ["--site", "generic", "--via", "twin", "--remote-dir"]


class User:
    """A user with a project, whose jobs run on the twin."""

    def __init__(self, folder: Path, testbed: Testbed, slurmgen: Run) -> None:
        self.folder, self.testbed, self.run = folder, testbed, slurmgen
        self.project, self.remote = folder / "p", folder / "remote"
        self.project.mkdir()
        for name, text in {
            "train.py": TRAIN,
            "sleep.py": "import time; time.sleep(300)",
            "data": "d",
        }.items():
            (self.project / name).write_text(text)

    def slurmgen(self, *args: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        environ = {**self.testbed.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        reply = self.run(*args, cwd=self.project, env=environ)
        assert reply.returncode == code, reply.stdout + reply.stderr
        return reply

    def submit(self, script: str = "train.py") -> str:
        job = ["--framework", "python", "--script", script, "--time", "00:05:00"]
        number = self.slurmgen("submit", *WAY, str(self.remote), *job).stdout.strip()
        settled(self.remote / self.project.name)
        return number

    def ended(self, script: str = "train.py") -> str:
        job = self.submit(script)
        assert self.testbed.wait(job) == "COMPLETED"
        return job

    def kept(self, *args: str) -> list[dict[str, str]]:
        reply = json.loads(self.slurmgen("snapshots", *WAY, str(self.remote), "--json", *args).stdout)
        assert reply["complaint"] == ""
        found: list[dict[str, str]] = reply["kept"]
        return found


@pytest.fixture
def user(tmp_path: Path, testbed: Testbed, slurmgen: Run) -> User:
    return User(tmp_path, testbed, slurmgen)


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_what_the_job_made_or_changed_comes_back_and_nothing_else(user: User) -> None:
    job = user.ended()
    reply = user.slurmgen("fetch", job)
    assert reply.stdout == f"train-{job}\n"
    here = user.project / f"train-{job}"
    made = ["data", "it's $(touch pwned)", "out/deep/model.pt", "out/last", f"train-{job}.out"]
    assert tree(here) == [".gitignore", *made]
    assert (here / "data").read_text() == "changed"
    assert (here / "out/last").read_text() == "weights"
    assert not list(user.folder.rglob("pwned"))


def test_the_list_of_files_names_what_would_be_fetched(user: User) -> None:
    job = user.ended()
    record = Ledger(Path(user.testbed.environ["XDG_STATE_HOME"], "slurmgen/ledger.sqlite")).find(job)[0]
    with LocalTransport(user.testbed.environ) as transport:
        listing = list_results(transport, Job.of(record, recorded_route(record, {})))
    made = ["data", "it's $(touch pwned)", "out/deep/model.pt", "out/last", f"train-{job}.out"]
    assert ([file.name for file in listing.files], listing.is_cut) == (made, False)
    model = listing.files[made.index("out/deep/model.pt")]
    assert (model.size, model.changed) == (7, 1)
    assert not list(user.folder.rglob("pwned"))


def test_nothing_is_overwritten_without_the_option(user: User) -> None:
    job = user.ended()
    (user.project / "out").mkdir()
    (user.project / "out/last").write_text("mine")
    reply = user.slurmgen("fetch", job, "--to", ".", code=1)
    assert "not fetched: data exists locally with different content" in reply.stderr
    assert "not fetched: out/last exists locally with different content" in reply.stderr
    assert (user.project / "data").read_text() == "d"
    assert (user.project / "out/last").read_text() == "mine"
    assert (user.project / "out/deep/model.pt").read_text() == "weights"
    reply = json.loads(user.slurmgen("fetch", job, "--to", ".", "--overwrite", "--json").stdout)
    assert (reply["kept"], sorted(reply["new"])) == ([], ["data", "out/last"])
    assert "out/deep/model.pt" in reply["same"]
    assert (user.project / "data").read_text() == "changed"
    assert not list(user.project.glob(".slurmgen*"))


def test_some_may_be_fetched_of_several_jobs(user: User) -> None:
    jobs = user.ended(), user.ended()
    reply = user.slurmgen("fetch", *jobs, "--only", "out", "--only", "*.out", "--json")
    assert [one["id"] for one in json.loads(reply.stdout)["jobs"]] == list(jobs)
    for job in jobs:
        expected = [".gitignore", "out/deep/model.pt", "out/last", f"train-{job}.out"]
        assert tree(user.project / f"train-{job}") == expected


@pytest.mark.parametrize("to", [[], ["--to", "results"], ["--to", "empty"]])
def test_results_are_not_sent_with_the_next_job(user: User, to: list[str]) -> None:
    (user.project / "empty").mkdir()
    job = user.ended()
    folder = user.slurmgen("fetch", job, *to).stdout.strip()
    assert (user.project / folder / "out/deep/model.pt").is_file()
    shown = user.slurmgen("submit", *WAY, str(user.remote), "--script", "train.py", "--dry-run")
    assert "train.py" in shown.stderr
    assert "model.pt" not in shown.stderr


def test_two_jobs_do_not_mix_in_one_folder(user: User) -> None:
    jobs = [user.ended(), user.ended()]
    user.slurmgen("fetch", *jobs, "--to", "results", "--only", "data")
    assert tree(user.project / "results") == sorted(
        f"train-{job}/{name}" for job in jobs for name in (".gitignore", "data")
    )


@pytest.mark.parametrize(("name", "folder"), [("../../out", "_.._out"), ("/etc", "_etc"), ("..", "job")])
def test_the_name_of_a_job_leads_to_no_other_folder(user: User, name: str, folder: str) -> None:
    (user.project / "own.sbatch").write_text(
        f"#!/bin/bash\n#SBATCH --job-name={name} --time=00:05:00\necho x > made\n"
    )
    job = user.slurmgen("submit", "own.sbatch", *WAY, str(user.remote)).stdout.strip()
    assert user.testbed.wait(job) == "COMPLETED"
    user.slurmgen("fetch", job, "--only", "made")
    assert (user.project / f"{folder}-{job}/made").read_text() == "x\n"


def test_a_link_of_the_user_is_replaced_and_not_followed(user: User) -> None:
    job = user.ended()
    (user.project / "else").mkdir()
    (user.project / "here").mkdir()
    (user.project / "here/data").symlink_to("../else")
    assert user.slurmgen("fetch", job, "--to", "here", code=1)
    user.slurmgen("fetch", job, "--to", "here", "--overwrite")
    assert tree(user.project / "else") == []
    assert not (user.project / "here/data").is_symlink()


def test_a_run_that_was_written_to_recently_is_not_pruned(user: User) -> None:
    user.ended()
    (run,) = (user.remote / "p" / "runs").iterdir()
    os.utime(run, (1, 1))
    assert [one["state"] for one in user.kept("--prune")] == ["free", "free"]
    for path in [*run.rglob("*"), run]:
        os.utime(path, (1, 1), follow_symlinks=False)
    assert "removed" in [one["state"] for one in user.kept("--prune", "--yes")]


def test_fetching_from_a_pruned_run_is_an_error(user: User) -> None:
    job = user.ended()
    user.kept("--prune", "--older-than", "0", "--yes")
    assert "its folder is gone, so it was pruned or moved." in user.slurmgen("fetch", job, code=3).stderr


def test_a_job_that_is_not_in_the_records_is_an_error(user: User) -> None:
    assert "is not in your records" in user.slurmgen("fetch", "999", "--site", "generic", code=2).stderr


def test_what_no_job_needs_is_listed_and_pruned(user: User) -> None:
    old, (live, ended) = user.ended(), (user.submit("sleep.py"), user.ended())
    (user.project / "data").write_text("new")
    newer = user.ended()
    states = {(one["kind"], one["detail"]): one["state"] for one in user.kept()}
    assert states == {
        **{("run", f"job {job} has ended"): "free" for job in (old, ended, newer)},
        ("run", f"job {live} has not ended"): "kept",
        ("snapshot", "a run that stays needs it"): "kept",
        ("snapshot", ""): "free",
    }
    assert all(one["state"] != "removed" for one in user.kept("--prune"))  # a week has not passed
    gone = [one for one in user.kept("--prune", "--older-than", "0", "--yes") if one["state"] == "removed"]
    assert sorted(one["kind"] for one in gone) == ["run"] * 3 + ["snapshot"]
    assert [one["state"] for one in user.kept()] == ["kept", "kept"]
    user.testbed.run("scancel", live)
    eventually(lambda: user.testbed.wait(live))
    user.kept("--prune", "--older-than", "0", "--yes")
    assert user.kept() == []


def test_results_that_were_never_fetched_are_pruned_only_after_a_question(user: User, tmp_path: Path) -> None:
    job, environ = user.ended(), {**user.testbed.environ, "XDG_CACHE_HOME": str(user.folder / "cache")}
    prune = ["snapshots", *WAY, str(user.remote), "--prune"]
    young = user.slurmgen(*prune)
    assert (young.stdout, young.stderr) == (
        "",
        "removed 0 of 2: 0 bytes\nkept 2 younger than 7 days: see --older-than\n",
    )
    prune += ["--older-than", "0"]
    tried = user.slurmgen(*prune, "--dry-run")
    assert "would remove 1 of 2" in tried.stderr
    assert "kept 1 with results that were never fetched" in tried.stderr
    assert "would remove 2 of 2" in user.slurmgen(*prune, "--dry-run", "--yes").stderr
    user.slurmgen("fetch", job, "--only", "nothing", "--to", str(tmp_path / "part"))
    for answer in ("n", "y"):
        with terminal(prune, environ, user.project) as typed:
            typed.sees("1 run with results that were never fetched: p/")
            typed.sees("Remove them? [y/N]:")
            typed.type(f"{answer}\n")
            assert typed.ended() == 0
        assert len(user.kept()) == (answer == "n")
    fetched = user.ended()
    user.slurmgen("fetch", fetched, "--to", str(tmp_path / "all"))
    assert {one["state"] for one in user.kept("--prune", "--older-than", "0")} == {"removed"}


def test_a_key_has_its_job_even_when_the_run_was_pruned(user: User) -> None:
    """Otherwise a client that received no reply would submit it again."""
    job = user.ended()
    ledger = Ledger(Path(user.testbed.environ["XDG_STATE_HOME"], "slurmgen/ledger.sqlite"))
    (entry,) = ledger.find(job)
    user.kept("--prune", "--older-than", "0", "--yes")
    ledger.settle(structs.replace(entry, id="", state="pending"))
    job_options = ["--framework", "python", "--script", "train.py", "--time", "00:05:00"]
    reply = user.slurmgen("submit", *WAY, str(user.remote), *job_options)
    assert reply.stdout == f"{job}\n"
    assert f"job {job} is the earlier submission" in reply.stderr


def test_nothing_is_pruned_while_slurm_does_not_reply(user: User) -> None:
    user.ended()
    silent = user.folder / "bin"
    silent.mkdir()
    (silent / "squeue").write_text("#!/bin/sh\necho 'squeue: error: Unable to contact' >&2\nexit 1\n")
    (silent / "squeue").chmod(0o755)
    user.testbed.environ["PATH"] = f"{silent}:{user.testbed.environ['PATH']}"
    try:
        reply = user.slurmgen("snapshots", *WAY, str(user.remote), "--prune", "--older-than", "0", "--json")
    finally:
        user.testbed.environ["PATH"] = user.testbed.environ["PATH"].partition(":")[2]
    assert "warning: Slurm did not report which jobs have ended: squeue: error: Unable" in reply.stderr
    assert "removed 0 of 2" in reply.stderr
    assert "Unable to contact" in json.loads(reply.stdout)["complaint"]
    assert user.testbed.run("ls", str(user.remote / "p/runs"))


def test_a_folder_where_nothing_is_kept_is_an_empty_list(user: User) -> None:
    assert user.kept() == []
