"""Jobs in segments on a real Slurm: one array whose tasks continue one run until it is finished."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from slurmgen.jobs.segments import run_state, why_unfinished
from slurmgen.slurm.replies import JobState
from tests.conftest import Run
from tests.support.twins import Testbed, eventually

Call = Callable[..., CompletedProcess[str]]

PROJECT = """
[defaults]
gpus = 0
time = "5"
[job.train]
script = "train.sh"
segments = 4
[job.evaluate]
script = "evaluate.sh"
"""
TRAIN = """# How each segment ends: a word of the arguments, by its number.
end="${!SLURM_ARRAY_TASK_ID}"
echo "segment $SLURM_ARRAY_TASK_ID: $end" >>segments-run
echo "$SLURM_ARRAY_TASK_ID" >checkpoint
case "$end" in
  unfinished) echo "${SLURM_ARRAY_TASK_ID}0" >"$REQUEUE_FILE"; exit 75 ;;
  idle) rm checkpoint segments-run; exit 75 ;;
  wait) sleep 300 ;;
  *) exit "$end" ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / f"project-{os.urandom(3).hex()}"
    folder.mkdir()
    (folder / "slurmgen.toml").write_text(PROJECT)
    (folder / "train.sh").write_text(TRAIN)
    (folder / "evaluate.sh").write_text("echo evaluated\n")
    return folder


@pytest.fixture
def call(slurmgen: Run, project: Path, testbed: Testbed, tmp_path: Path) -> Iterator[Call]:
    (tmp_path / "home").mkdir()
    more = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}

    def run(*words: str) -> CompletedProcess[str]:
        at = ["--site", "generic", "--via", "twin"] if words[0] == "submit" else []
        head, _, tail = "\0".join(words).partition("\0--\0")
        args = ["--", *tail.split("\0")] if tail else []
        return slurmgen(*head.split("\0"), *at, *args, cwd=project, env=os.environ | more)

    yield run
    testbed.run("scancel", "--me")
    eventually(lambda: not testbed.run("squeue", "--noheader").strip())


def submitted(call: Call, *ends: str) -> str:
    reply = call("submit", "train", "--", *ends)
    assert reply.returncode == 0, reply.stderr
    return reply.stdout.strip()


def shown(call: Call, job: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(call("status", job, "--json").stdout)
    return found


def run_of(call: Call, job: str) -> list[str]:
    """What its segments wrote."""
    return Path(str(shown(call, job)["folder"]), "segments-run").read_text().splitlines()


def test_a_run_continues_in_segments_until_it_is_finished(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "unfinished", "unfinished", "0", "1")
    reply = call("submit", "evaluate", "--after", job)
    after = reply.stdout.strip()
    waited = call("wait", job)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    assert run_of(call, job) == ["segment 1: unfinished", "segment 2: unfinished", "segment 3: 0"]
    assert f"job {job} (train) is COMPLETED in segment 3 of 4" in call("status", job).stdout
    log = call("logs", job).stdout
    assert "slurmgen: segment 2 of 4 is unfinished, at step 20, 0 without progress" in log
    assert "slurmgen: segment 3 of 4 has finished the run" in log
    assert testbed.wait(after) == "COMPLETED", "the jobs that wait for it are cancelled with the other tasks"
    assert not testbed.run("squeue", "--noheader").strip()


def test_an_error_ends_the_run_and_starts_no_further_segment(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "unfinished", "3")
    assert call("wait", job).returncode == 3
    assert run_of(call, job) == ["segment 1: unfinished", "segment 2: 3"]
    status = call("status", job).stdout
    assert f"job {job} (train) is FAILED in segment 2 of 4" in status
    assert "why: task 0 on 127.0.0.1 ended with exit code 3" in status, "not how the segment before ended"
    assert not testbed.run("squeue", "--noheader").strip()


def test_a_run_that_needs_more_segments_says_so(call: Call) -> None:
    job = submitted(call, *["unfinished"] * 4)
    assert call("wait", job).returncode == 75
    status = call("status", job).stdout
    assert f"job {job} (train) is FAILED in segment 4 of 4" in status
    assert "why: the run is unfinished after 4 segments at step 40" in status
    assert f"do: `slurmgen resubmit {job} --segments N`" in status
    assert len(run_of(call, job)) == 4


def test_a_run_without_progress_ends_after_two_segments(call: Call) -> None:
    job = submitted(call, "idle", "idle", "0")
    assert call("wait", job).returncode == 75
    assert "why: two segments in a row made no progress" in call("status", job).stdout


def test_a_run_survives_a_failed_node_but_not_scancel(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "wait", "wait", "0")

    def number(seen: str) -> bool:
        path = Path(str(shown(call, job)["folder"]), "segments-run")
        return path.exists() and seen in path.read_text()

    eventually(lambda: number("segment 1: wait"))
    node = testbed.run("squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%N").strip()
    testbed.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    testbed.run("scontrol", "update", f"NodeName={node}", "State=IDLE")
    eventually(lambda: number("segment 2: wait"))
    state = shown(call, job)
    assert (state["state"], state["ended"]) == ("RUNNING", False)
    testbed.run("scancel", "--state=RUNNING", job)
    assert call("wait", job).returncode == 143
    assert f"job {job} (train) is CANCELLED" in call("status", job).stdout
    assert not number("segment 3")
    assert not testbed.run("squeue", "--noheader").strip()


def test_cancel_ends_all_segments(call: Call) -> None:
    job = submitted(call, "wait", "0")
    eventually(lambda: shown(call, job)["state"] == "RUNNING")
    assert "in segment 1 of 4" in call("status", job).stdout
    assert call("cancel", job).returncode == 0
    assert call("wait", job).returncode == 143
    assert re.search(rf"job {job} \(train\) is CANCELLED in segment 1 of 4", call("status", job).stdout)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--requeue"], "--segments and --requeue exclude each other"),
        (["--sbatch", "array=0-3"], "--segments and --sbatch array exclude each other"),
        (["--preflight", "--on-bad-node", "retry"], "--segments and --on-bad-node retry exclude each other"),
        (["--segments", "0"], "--segments is 0"),
    ],
)
def test_what_contradicts_segments_is_refused(words: list[str], error: str, call: Call) -> None:
    reply = call("render", "train", *words)
    assert reply.returncode == 2
    assert error in reply.stderr


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        (["COMPLETED", "OUT_OF_MEMORY", "FAILED 1", "CANCELLED"], "OUT_OF_MEMORY"),
        (["TIMEOUT", "FAILED 3", "CANCELLED", "CANCELLED"], "FAILED"),
        (["TIMEOUT", "CANCELLED", "FAILED 1", "CANCELLED"], "CANCELLED"),
        (["COMPLETED", "DEADLINE", "FAILED 1", "CANCELLED"], "DEADLINE"),
    ],
)
def test_a_run_has_the_state_of_the_segment_that_ended_it(ends: list[str], state: str) -> None:
    tasks = [
        JobState(id=f"7_{number}", state=end.split()[0], exit_code=f"{end.partition(' ')[2] or 0}:0")
        for number, end in enumerate(ends, 1)
    ]
    assert run_state(tasks, None) == state
    assert why_unfinished("7", state, None, tasks) is None
