"""Jobs that wait for others: --after and depends_on, on a real Slurm."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen import RequestError, load_job, submit
from slurmgen.ledger.ledger import Ledger, Record
from tests.conftest import Run
from tests.support.machines import Call
from tests.support.twins import Testbed, eventually

Reply = subprocess.CompletedProcess[str]

PROJECT = """
[defaults]
gpus = 0
time = "5"

[job.prepare]
script = "wait.sh"
[job.train]
script = "done.sh"
depends_on = "prepare"
[job.clean]
script = "done.sh"
depends_on = ["any:prepare", "train"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / f"project-{os.urandom(3).hex()}"
    folder.mkdir()
    (folder / "slurmgen.toml").write_text(PROJECT)
    (folder / "wait.sh").write_text('until [ -e go ]; do sleep 0.2; done\nexit "$(cat go)"\n')
    (folder / "done.sh").write_text("echo done\n")
    return folder


def submitted(reply: Reply) -> str:
    assert reply.returncode == 0, reply.stderr
    assert re.fullmatch(r"\d+\n", reply.stdout)
    return reply.stdout.strip()


def dependency(testbed: Testbed, job: str) -> str:
    return re.findall(r" Dependency=(\S+)", testbed.run("scontrol", "show", "job", job))[0]


def end(call: Call, job: str, status: int) -> None:
    """Let a job of wait.sh end."""
    folder = json.loads(call("status", job, "--json").stdout)["folder"]
    Path(folder, "new").write_text(f"{status}\n")
    Path(folder, "new").rename(Path(folder, "go"))  # the job must not read half of it


def forgotten(testbed: Testbed, job: str) -> None:
    """Make the ledger forget the reply about a job, as if the client had been killed before it."""
    path = Path(testbed.environ["XDG_STATE_HOME"], "slurmgen", "ledger.sqlite")
    with sqlite3.connect(path) as ledger:
        ledger.execute("UPDATE jobs SET id = '', state = 'pending' WHERE id = ?", (job,))


def test_a_job_of_slurmgen_toml_starts_after_the_job_that_it_depends_on(
    call: Call, testbed: Testbed, project: Path
) -> None:
    alone = call("submit", "train")
    assert (alone.returncode, alone.stdout) == (2, "")
    assert (
        "train depends on prepare, which was not submitted to generic. `slurmgen submit train --all`"
        in alone.stderr
    )

    first = submitted(call("submit", "prepare"))
    shown = json.loads(call("submit", "train", "--dry-run", "--json").stdout)
    assert shown["after"] == [{"id": first, "type": "ok"}]
    assert "dependency" not in shown["script"]
    reply = call("submit", "train")
    second = submitted(reply)
    assert f"it starts when job {first} (prepare) has COMPLETED" in reply.stderr
    third = submitted(call("submit", "clean"))
    assert dependency(testbed, second) == f"afterok:{first}(unfulfilled)"
    assert dependency(testbed, third) == f"afterany:{first}(unfulfilled),afterok:{second}(unfulfilled)"

    # A repeated command whose reply was lost finds its job, whatever `last` means by then.
    last = submitted(call("submit", "prepare", "--after", "last"))
    assert dependency(testbed, last) == f"afterok:{third}(unfulfilled)"
    forgotten(testbed, last)
    assert submitted(call("submit", "prepare", "--after", "last")) == last

    end(call, first, 0)
    assert [testbed.wait(job) for job in (first, second, third)] == ["COMPLETED"] * 3
    again = submitted(call("submit", "train", "--after", first))  # no need to wait for what has ended
    assert dependency(testbed, again) == "(null)"


def test_a_job_whose_condition_cannot_be_met_is_refused_or_cancelled(call: Call, testbed: Testbed) -> None:
    first = submitted(call("submit", "prepare"))
    good, bad = (submitted(call("submit", "train", "--after", f"{kind}:{first}")) for kind in ("notok", "ok"))
    end(call, first, 3)
    assert testbed.wait(first) == "FAILED"
    assert (testbed.wait(good), testbed.wait(bad)) == ("COMPLETED", "CANCELLED")
    assert "why: a job that it depends on did not end as required" in call("status", bad).stdout

    refused = call("submit", "train")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"job {first} (prepare) has COMPLETED, which is FAILED. Submit that job again" in refused.stderr
    # The same, repeated after its reply was lost, has made its job already.
    forgotten(testbed, bad)
    assert submitted(call("submit", "train", "--after", f"ok:{first}")) == bad
    assert submitted(call("submit", "train", "--after", f"any:{first}"))


def test_a_resubmitted_job_waits_for_the_jobs_of_the_original_that_have_not_ended(
    call: Call, testbed: Testbed
) -> None:
    first, second = (submitted(call("submit", "prepare", "--after", "none")) for _ in range(2))
    original = submitted(call("submit", "train", "--after", f"any:{first}", "--after", second))
    end(call, first, 3)
    assert testbed.wait(first) == "FAILED"
    reply = call("resubmit", original, "--unchanged")
    again = submitted(reply)
    assert f"it starts when job {second} (prepare) has COMPLETED" in reply.stderr
    assert f"it does not wait for job {first} (prepare), which has ended" in reply.stderr
    assert dependency(testbed, again) == f"afterok:{second}(unfulfilled)"

    third = submitted(call("resubmit", again, "--unchanged"))  # the words of the first one are kept
    assert dependency(testbed, third) == f"afterok:{second}(unfulfilled)"
    free = submitted(call("resubmit", again, "--unchanged", "--after", "none"))
    assert dependency(testbed, free) == "(null)"

    end(call, second, 3)
    assert testbed.wait(second) == "FAILED"
    refused = call("resubmit", again, "--unchanged")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"job {second} (prepare) has COMPLETED, which is FAILED" in refused.stderr


def test_the_jobs_of_a_group_wait_for_the_same_jobs_when_they_are_resubmitted(
    call: Call, testbed: Testbed
) -> None:
    first, second = call("submit", "train", "--all").stdout.split()
    again = submitted(call("resubmit", second, "--unchanged"))
    assert dependency(testbed, again) == f"afterok:{first}(unfulfilled)"


def test_a_job_that_cannot_be_found_is_refused(call: Call, testbed: Testbed) -> None:
    def refusal(*words: str) -> str:
        reply = call("submit", "train", *words)
        assert (reply.returncode, reply.stdout) == (2, ""), reply.stderr
        return reply.stderr

    assert "no job called 'nosuch' was submitted" in refusal("--after", "nosuch")
    assert "'any:' names no job" in refusal("--after", "any:")
    assert "Slurm does not know job 4711 any more, or never did" in refusal("--after", "any:4711")
    assert "excludes the sbatch option" in refusal("--after", "4711", "--sbatch", "dependency=singleton")
    first = submitted(call("submit", "prepare"))
    path = Path(testbed.environ["XDG_STATE_HOME"], "slurmgen", "ledger.sqlite")
    with sqlite3.connect(path) as ledger:
        ledger.execute("UPDATE jobs SET site = 'daic' WHERE id = ?", (first,))
    assert f"job {first} is at daic, a twin, and a job at generic, a twin cannot wait" in refusal(
        "--after", first
    )
    with sqlite3.connect(path) as ledger:
        ledger.execute("UPDATE jobs SET site = 'generic', state = 'pending', id = '' WHERE id = ?", (first,))
    assert "not known whether the last submission of prepare became a job" in refusal()
    with sqlite3.connect(path) as ledger:
        ledger.execute("DELETE FROM jobs WHERE state = 'pending'")


def test_all_jobs_are_submitted_as_one_group_and_a_repetition_doubles_none(
    call: Call, testbed: Testbed, project: Path, tmp_path: Path
) -> None:
    words = ["submit", "--all", "--site", "generic", "--via", "twin"]
    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    killed = subprocess.Popen(
        [sys.executable, "-m", "slurmgen", *words],
        cwd=project,
        env=os.environ | home,
        stderr=subprocess.DEVNULL,
    )
    parent = tmp_path / "home" / "slurmgen" / project.name
    eventually(lambda: list(parent.glob("submissions/*/job")))
    killed.kill()
    killed.wait()

    reply = call("submit", "--all")
    assert reply.returncode == 0, reply.stderr
    prepare, train, clean = reply.stdout.split()
    assert len(list(parent.glob("runs/*"))) == len(list(parent.glob("submissions/*"))) == 3
    assert dependency(testbed, train) == f"afterok:{prepare}(unfulfilled)"
    assert dependency(testbed, clean) == f"afterany:{prepare}(unfulfilled),afterok:{train}(unfulfilled)"
    group = re.findall(r"these jobs are the group (\S+),", reply.stderr)[0]
    assert len(json.loads(call("status", group, "--json").stdout)["jobs"]) == 3
    end(call, prepare, 0)
    assert call("wait", group).returncode == 0

    again = call("submit", "train", "--all")
    assert len(set(again.stdout.split()) - {prepare, train, clean}) == 2, again.stderr
    assert call("cancel", re.findall(r"group (\S+),", again.stderr)[0]).returncode == 0
    assert "exclude each other" in call("submit", "--all", "--after", "last").stderr


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            'depends_on = "trian"',
            "slurmgen.toml:4: job train depends on 'trian', which slurmgen.toml does not",
        ),
        ('depends_on = "any:"', "slurmgen.toml:4: 'any:' names no job to wait for"),
        (
            'depends_on = ["clean"]\n[job.clean]\ndepends_on = "notok:train"',
            "jobs depend on each other: train depends on clean depends on train",
        ),
        ('depends_on = "train"', "jobs depend on each other: train depends on train"),
    ],
)
def test_wrong_dependencies_in_slurmgen_toml_are_refused(
    lines: str, error: str, slurmgen: Run, tmp_path: Path
) -> None:
    (tmp_path / "slurmgen.toml").write_text(f'\n[job.train]\nscript = "train.py"\n{lines}\n')
    reply = slurmgen("explain", "train")
    assert reply.returncode == 2
    assert error in reply.stderr


def test_explain_shows_what_a_job_depends_on(slurmgen: Run, project: Path) -> None:
    assert re.search(
        r"depends_on +any:prepare +slurmgen.toml", slurmgen("explain", "clean", cwd=project).stdout
    )
    assert json.loads(slurmgen("explain", "prepare", "--json", cwd=project).stdout)["depends_on"] == []


def test_a_job_does_not_depend_on_a_job_of_another_clone(slurmgen: Run, tmp_path: Path) -> None:
    clones = [tmp_path / parent / "project" for parent in ("first", "second", "third")]
    for number, clone in enumerate(clones):
        clone.mkdir(parents=True)
        (clone / "slurmgen.toml").write_text(PROJECT)
        (clone / "done.sh").write_text("echo done\n")
        asked = {"site": "generic", "project": str(clone), "job": "prepare"}
        if clone.parent.name != "third":
            Ledger().add(prepare_of(str(number), request=json.dumps(asked)))

    def depends(clone: Path) -> Reply:
        return slurmgen(
            "submit", "train", "--site", "generic", "--via", "local", "--dry-run", "--json", cwd=clone
        )

    for number, clone in enumerate(clones[:2]):
        assert json.loads(depends(clone).stdout)["after"] == [{"id": str(number), "type": "ok"}]
    alone = depends(clones[2])
    assert (alone.returncode, alone.stdout) == (2, "")
    with pytest.raises(RequestError, match="depends on prepare, which was not submitted to generic"):
        submit(load_job("train", site="generic", project_dir=clones[2]), via="local")
    Ledger().add(prepare_of("7"))  # as older versions recorded it
    assert json.loads(depends(clones[2]).stdout)["after"] == [{"id": "7", "type": "ok"}]


def prepare_of(number: str, request: str = "") -> Record:
    """The record of a job `prepare` of a project called `project`."""
    return Record(
        id=number,
        site="generic",
        via="local",
        name="prepare",
        folder=f"/home/me/slurmgen/project/runs/prepare-{number}",
        output="%x-%j.out",
        submitted=f"2026-01-01T00:00:0{number}+00:00",
        key=f"k{number}",
        request=request,
    )
