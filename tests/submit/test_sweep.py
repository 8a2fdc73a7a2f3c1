"""A sweep as the user runs it: one array on a real Slurm, from submission to its results."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import Request, RequestError, api, load_site, resolve, submit
from slurmgen.ledger.ledger import Ledger
from slurmgen.request.model import Sweep
from slurmgen.submit.submission import Observer
from tests.conftest import Run
from tests.support.twins import Testbed, eventually

Call = Callable[..., "subprocess.CompletedProcess[str]"]
TRAIN = """import json, os, pathlib, sys
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
print(words, os.environ["SLURM_JOB_ID"], flush=True)
lr, folder = float(words["lr"]), pathlib.Path(os.environ["RUN_DIR"])
lines = [json.dumps({"step": step, "loss": lr * step}) for step in range(3)]
(folder / "metrics.jsonl").write_text("\\n".join(lines) + "\\n")
sys.exit(4 if lr > 0.5 and "FIXED" not in os.environ else 0)
"""
SITE = ("--site", "generic", "--via", "twin")
JOB = ("--framework", "python", "--time", "00:05:00", "--script", "train.py")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "project").mkdir()
    (home / "project/train.py").write_text(TRAIN)
    return home


@pytest.fixture
def call(slurmgen: Run, home: Path, testbed: Testbed, tmp_path: Path) -> Call:
    """Run slurmgen in the project, with a ledger of the test's own that is the twin's too."""
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    return lambda *args, **more: slurmgen(*args, cwd=home / "project", env={**env, **more})


def submitted(call: Call, name: str, *args: str) -> list[str]:
    reply = call("submit", *SITE, *JOB, "--name", name, *args)
    assert reply.returncode == 0, reply.stderr
    return reply.stdout.split()


def test_a_sweep_from_its_submission_to_its_results(call: Call, home: Path) -> None:
    (array,) = submitted(call, "fit", "--gpus", "0", "--sweep", "lr=1e-3,0.1,0.9", "--sweep-limit", "2")
    assert call("wait", "fit").returncode == 4

    shown = call("status", "fit").stdout
    assert shown.splitlines()[0] == f"job {array} (fit) is FAILED: 2 completed, 1 failed"
    assert "2 completed, 1 failed" in call("status").stdout
    table = call("status", "fit", "--tasks").stdout.splitlines()
    assert [line.split()[:3] for line in table] == [
        ["TASK", "lr", "STATE"],
        [f"{array}_0", "1e-3", "COMPLETED"],
        [f"{array}_1", "0.1", "COMPLETED"],
        [f"{array}_2", "0.9", "FAILED"],
    ]
    assert call("status", f"{array}_1", "--tasks").stdout.startswith(f"job {array}_1 (fit) is COMPLETED")
    tasks = json.loads(call("status", "fit", "--json").stdout)["tasks"]
    assert [task["parameters"] for task in tasks] == [[{"lr": "1e-3"}], [{"lr": "0.1"}], [{"lr": "0.9"}]]

    logs = [call("logs", name).stdout for name in (f"{array}_0", "fit[lr=0.001]", "fit[lr=0.1]")]
    assert logs[0] == logs[1] != logs[2]
    assert logs[0].startswith("{'lr': '1e-3'}")
    jobs = [log.split()[-1] for log in logs[1:]]
    assert jobs[0] != jobs[1], "the port of the rendezvous comes from this id"
    whole = call("logs", "fit")
    assert (whole.returncode, whole.stdout) == (2, "")
    assert "each task has a log. Name a task, such as" in whole.stderr

    fetched = call("fetch", "fit[lr=0.1]")
    assert fetched.stdout == f"fit-{array}_1\n"
    files = {
        str(path.relative_to(home / "project" / f"fit-{array}_1")) for path in _files(home, f"fit-{array}_1")
    }
    assert files == {".gitignore", f"fit-{array}_1.out", f"tasks/{array}_1/metrics.jsonl"}

    results = call("results", "fit", "--metric", "loss", "--descending").stdout.splitlines()
    assert [line.split() for line in results] == [
        ["TASK", "lr", "loss", "step"],
        [f"{array}_2", "0.9", "1.8", "2"],
        [f"{array}_1", "0.1", "0.2", "2"],
        [f"{array}_0", "1e-3", "0.002", "2"],
    ]
    assert call("results", "fit", "--csv").stdout.splitlines()[1] == f"{array}_0,1e-3,2,0.002"
    drawn = call("results", "fit", "--metric", "loss", "--plot", "-").stdout
    assert re.search(r"lr=0.9 +1.8 +█{40}\n", drawn), drawn

    again = call("resubmit", "fit", "--failed", "--via", "twin", "--env", "FIXED=1")
    assert again.returncode == 0, again.stderr
    second = again.stdout.strip()
    assert call("wait", "fit").returncode == 0
    assert call("status", "fit").stdout.startswith(f"job {second} (fit) is COMPLETED: 1 completed\n")
    rows = [line.split()[:2] for line in call("results", "fit").stdout.splitlines()[1:]]
    assert rows == [[f"{array}_0", "1e-3"], [f"{array}_1", "0.1"], [f"{second}_2", "0.9"]]
    none = call("resubmit", "fit", "--failed")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no task of fit has failed" in none.stderr
    for name in (f"{array}_1", "fit[lr=0.9]"):
        chosen = json.loads(call("resubmit", name, "--dry-run", "--json").stdout)["script"]
        assert f"#SBATCH --array={1 if '_' in name else 2}" in chosen

    wrong = call("cancel", "fit[lr=7]")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no run of fit has lr=7" in wrong.stderr
    assert "has no parameter bs. It has lr." in call("status", "fit[bs=1]").stderr

    prune = ("snapshots", *SITE, "--prune", "--older-than", "0")
    assert "kept 2 with results that were never fetched" in call(*prune).stderr
    assert call("results", "fit").returncode == 0
    assert call(*prune, "--yes").returncode == 0
    gone = call("results", "fit")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert f"job {array} was pruned: its folder at generic is gone, and its results with it" in gone.stderr


def _files(home: Path, name: str) -> list[Path]:
    return [path for path in (home / "project" / name).rglob("*") if path.is_file()]


def test_tasks_are_cancelled_by_their_parameters(call: Call, home: Path) -> None:
    (home / "project/sleep.py").write_text("import time\ntime.sleep(300)\n")
    args = ["--gpus", "0", "--script", "sleep.py", "--sweep", "lr=1,2", "--sweep", "seed=1,2"]
    submitted(call, "nap", *args)
    assert call("cancel", "nap[lr=1.0]").returncode == 0

    def others_only() -> bool:  # a task that ran ends a moment after the command
        tasks = json.loads(call("status", "nap", "--json").stdout)["tasks"]
        states = {tuple(task["parameters"][0].values()): task["state"] for task in tasks}
        return {key for key, state in states.items() if state != "CANCELLED"} == {("2", "1"), ("2", "2")}

    assert eventually(others_only)
    assert call("cancel", "nap").returncode == 0


def test_runs_that_share_a_gpu_have_their_own_logs_and_folders(call: Call, home: Path) -> None:
    (home / "project/slurmgen.toml").write_text(
        '[job.shared]\nscript = "train.py"\nframework = "python"\ntime = "00:05:00"\n'
        '[job.shared.sweep]\nlist = [{lr = "1e-3"}, {lr = "0.9"}, {lr = "0.2"}]\nruns_per_gpu = 2\n'
    )
    reply = call("submit", "shared", *SITE)
    (home / "project/slurmgen.toml").unlink()
    array = reply.stdout.strip()
    assert re.fullmatch(r"\d+", array), reply.stderr
    assert call("wait", "shared").returncode == 4
    assert "1 completed, 1 failed" in call("status", "shared").stdout
    assert call("logs", f"{array}_0").stdout.endswith("run 1 ended with exit status 4\n")
    assert call("logs", "shared[lr=0.001]").stdout.startswith("{'lr': '1e-3'}")
    assert call("logs", "shared[lr=0.2]").stdout.startswith("{'lr': '0.2'}")
    both = call("logs", "-f", "shared[lr=0.001]", "shared[lr=0.9]").stdout.splitlines()
    assert {line.partition(": ")[0] for line in both} == {f"{array}_0/0", f"{array}_0/1"}
    call("fetch", "shared[lr=0.9]")
    names = {path.name for path in _files(home, f"shared-{array}_0-1")}
    assert names == {".gitignore", "metrics.jsonl", "run.out"}


class Killed(BaseException):
    """Ends the client, as SIGKILL would."""


class KilledAtSecond(Observer):
    """Ends the client before it sends the second array."""

    def __init__(self) -> None:
        self.sent = 0

    def sending(self) -> AbstractContextManager[None]:
        self.sent += 1
        if self.sent == 2:
            raise Killed
        return nullcontext()


def test_a_killed_client_repeated_gives_the_same_arrays_once(
    home: Path, testbed: Testbed, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", testbed.environ["XDG_STATE_HOME"])
    site = structs.replace(load_site("generic"), max_array_size=2)
    sweep = Sweep(grid={"lr": (0.1, 0.2, 0.3, 0.4, 0.9)})
    asked = Request(framework="python", gpus=0, time="00:05:00", script="train.py", name="many", sweep=sweep)
    plan = resolve(asked, site)
    with pytest.raises(Killed):
        submit(plan, home / "project", via="twin", observer=KilledAtSecond())
    assert [entry.pending for entry in Ledger().all() if entry.name == "many"] == [True] * 3
    first = submit(plan, home / "project", via="twin")
    group = Ledger().group(first)
    assert len({one.id for one in group}) == len(group) == 3
    listed = testbed.run("squeue", "--name=many", "--states=all", "--noheader", "--format=%F").split()
    assert set(listed) == {one.id for one in group}

    waits = call(
        "submit", *SITE, *JOB, "--gpus", "0", "--name", "then", "--after", "many", "--dry-run"
    ).stderr
    assert [one.id for one in group if f"starts when job {one.id} (many) has COMPLETED" in waits] == [
        one.id for one in group
    ]
    notok = call("submit", *SITE, *JOB, "--gpus", "0", "--name", "then", "--after", "notok:many", "--dry-run")
    assert (notok.returncode, notok.stdout) == (2, "")
    assert "the sweep many has 3 arrays" in notok.stderr

    assert call("wait", "many").returncode == 4
    shown = call("status", "many").stdout
    assert shown.startswith(f"job {first.id} (many) is FAILED: 4 completed, 1 failed\n")
    assert call("status").stdout.count(" many ") == 1
    for name in ("many", first, first.part_of):
        whole = api.wait(name)
        assert (whole.job.id.number, whole.state, whole.code, len(whole.states)) == (first.id, "FAILED", 4, 5)
    good, every, bad = api.status(["many[lr=0.1]", group[0].id, "many[lr=0.9]"])
    assert [one.state for one in (good, every, bad)] == ["COMPLETED", "COMPLETED", "FAILED"]
    assert "".join(api.logs("many[lr=0.3]")).startswith("{'lr': '0.3'}")
    with pytest.raises(RequestError, match=f"many is 3 jobs: {group[0].id}, "):
        api.fetch(first)
    assert call("logs", "many[lr=0.3]").stdout.startswith("{'lr': '0.3'}")
    assert len(call("results", "many", "--csv").stdout.splitlines()) == 6
    assert len(call("status", "many", "--tasks").stdout.splitlines()) == 6
