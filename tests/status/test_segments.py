"""Jobs in segments on a real Slurm: one array whose tasks continue one run until it is finished."""

import json
import os
import re
from pathlib import Path
from subprocess import CompletedProcess, Popen

import pytest

from slurmgen import Request, follow, load_site, render, resolve
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import Job
from slurmgen.status.query import make_report
from slurmgen.status.report_text import lines
from slurmgen.status.segments import is_unread, requeued, run_state, why_unfinished
from tests.conftest import Run
from tests.support.machines import Call
from tests.support.sshd import Server
from tests.support.twins import Testbed, eventually

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


def test_an_old_copy_of_a_restarted_segment_does_not_end_the_run(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "wait", "wait", "0")
    folder = Path(str(shown(call, job)["folder"]))
    state, ran = folder / f".segments-{job}", folder / "segments-run"
    eventually(lambda: ran.exists() and state.read_text() == "1 0\n")
    node = testbed.run("squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%N").strip()
    testbed.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    (folder / f"{state.name}.1.0").write_text("failed\n")  # by the old copy, while no other one has started
    testbed.run("scontrol", "update", f"NodeName={node}", "State=IDLE")
    eventually(lambda: "segment 2" in ran.read_text() and state.read_text() == "2 0\n")
    (folder / f"{state.name}.1.0").write_text("failed\n")  # and afterwards
    testbed.run("scontrol", "requeue", f"{job}_2")
    assert call("wait", job).returncode == 0
    assert state.read_text() == "3 0\n"
    assert run_of(call, job) == ["segment 1: wait", "segment 2: wait", "segment 3: 0"]
    assert "segment 2 of 4 was ended by Slurm: RESTARTED" in call("logs", job).stdout


def test_a_copy_that_is_not_the_newest_ends_its_job_step_and_itself(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "wait", "0")
    folder = Path(str(shown(call, job)["folder"]))
    eventually((folder / "segments-run").exists)
    (folder / f".segments-{job}").write_text("2 0\n")  # as a segment that has begun elsewhere
    assert testbed.wait(f"{job}_1") == "FAILED"
    assert call("wait", job).returncode == 0
    assert run_of(call, job) == ["segment 1: wait", "segment 2: 0"]
    log = call("logs", job).stdout
    assert "slurmgen: an old copy of segment 1 ends, because segment 2 has begun" in log
    assert "forcing job termination" in log


def test_a_run_that_finishes_early_is_completed_for_those_who_follow_it_over_ssh(
    slurmgen: Run, project: Path, login_node: Server, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMGEN_SSH_CONFIG", login_node.config(project.parent))
    at = ["--site", "generic", "--host", "far"]

    def started(command: str, *options: str) -> CompletedProcess[str]:
        return slurmgen(command, "train", *at, *options, "--", "unfinished", "0", cwd=project)

    replies = [
        started("submit", "--follow"),
        started("run"),
        slurmgen("logs", "-f", *submitted_jobs(), cwd=project),
    ]
    for reply in replies:
        assert reply.returncode == 0, reply.stderr
        assert "(train) is COMPLETED in segment 2 of 4" in reply.stderr
    report = follow(submitted_jobs()[0], lambda _part: None)
    assert report.state == "COMPLETED"
    cancelled = slurmgen("cancel", submitted_jobs()[0], cwd=project)
    assert "has ended already" in cancelled.stdout + cancelled.stderr
    assert all("finished" in record.requeued for record in Ledger().all())
    assert slurmgen("status", cwd=project).stdout.count("COMPLETED") == 2


def submitted_jobs() -> list[str]:
    return [record.id for record in Ledger().all()]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("JobArrayTaskLimit", []),
        ("launch failed requeued held", ["why: a node could not", "do: Run `scontrol release 12_1` on"]),
    ],
)
def test_a_held_segment_is_explained_if_no_other_one_will_start(second: str, expected: list[str]) -> None:
    held = JobState(id="12_1", state="PENDING", reason="launch failed requeued held")
    states = [held, JobState(id="12_2", state="PENDING", reason=second)]
    request = json.dumps({"request": {"segments": 2}}, separators=(",", ":"))
    route = Route(site="daic", via="ssh")
    record = Record(
        id="12", site="daic", via="ssh", name="n", folder="/f", output="", submitted="", request=request
    )
    text = [line.strip() for line in lines(make_report(Job(JobId("12"), route, record), states))]
    found = [line for line in text if line.startswith(("why: a node", "do:"))]
    assert [line[: len(part)] for line, part in zip(found, expected, strict=True)] == expected


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
    ("ends", "log", "is_kept"),
    [
        ("COMPLETED COMPLETED CANCELLED", "", False),
        ("COMPLETED COMPLETED CANCELLED", "slurmgen: segment 2 of 3 has finished the run", True),
        ("COMPLETED OUT_OF_MEMORY CANCELLED", "", True),
    ],
)
def test_the_end_of_a_run_is_kept_only_if_it_is_known_whether_it_finished(
    ends: str, log: str, is_kept: bool
) -> None:
    tasks = [JobState(id=f"7_{number}", state=end) for number, end in enumerate(ends.split(), 1)]
    assert is_unread(tasks, requeued(log)) != is_kept


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


AFTER_THE_HEAD = "\n# Secrets, which "
COMMANDS = """
squeue() { echo "squeue $*" >>commands; SQUEUE; }
scontrol() {
  echo "scontrol $*" >>commands
  case "$1 $2" in "show job") echo " JobState=RUNNING Restarts=0 " ;; *JobId=8) return 1 ;; esac
}
scancel() { echo scancel >>commands; }
"""


def segment(folder: Path, number: int, end: int, squeue: str) -> tuple[int, str]:
    """How one of two segments exits, whose job step ends with `end`, and the Slurm commands that it ran."""
    run = f'progress="$PWD/progress" REQUEUE_FILE="$PWD/unfinished" status=0\nexit {end}\n'
    (folder / "progress").write_text("0 0\n")
    (folder / ".slurmgen").mkdir(exist_ok=True)
    (folder / ".slurmgen/secrets").touch()
    return start(folder, number, run, squeue).wait(), (folder / "commands").read_text()


def start(folder: Path, number: int, run: str, squeue: str = ":", commands: str = COMMANDS) -> Popen[bytes]:
    """Start one of two segments, whose job step is a line of shell."""
    asked = Request(script="train.sh", gpus=0, segments=2, secrets=("TOKEN",), framework="python")
    text = render(resolve(asked, load_site("generic")))
    head = text[: text.index(AFTER_THE_HEAD)]
    ids = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_JOB_ID": f"{6 + number}", "SLURM_ARRAY_TASK_ID": str(number)}
    with (folder / f"log-{number}").open("w") as log:
        return Popen(
            ["bash", "-c", f"{commands.replace('SQUEUE', squeue)}{head}\n{run}"],
            cwd=folder,
            env={"PATH": os.environ["PATH"]} | ids,
            stdout=log,
            stderr=log,
            start_new_session=True,  # an old copy ends its process group
        )


def test_a_segment_begins_after_an_old_copy_that_still_runs_has_ended(tmp_path: Path) -> None:
    step = """bash -c 'trap "sleep 1; echo old copy ended >>ran; exit" TERM; touch runs; sleep 300 & wait'"""
    old = start(tmp_path, 1, step)
    eventually((tmp_path / "runs").exists)
    new = start(tmp_path, 2, "echo new one began >>ran; trap - EXIT; stop_showing")
    assert (old.wait(), new.wait()) == (143, 0)
    assert "because segment 2 has begun" in (tmp_path / "log-1").read_text()
    assert (tmp_path / "ran").read_text().splitlines() == ["old copy ended", "new one began"]
    assert not list(tmp_path.glob(".segments-7.*.runs"))


def test_a_segment_begins_although_an_old_copy_was_killed(tmp_path: Path) -> None:
    (tmp_path / ".segments-7.1.0.runs").write_text("5\n")
    commands = f"{COMMANDS}sleep() {{ command sleep 0.01; }}\n"
    new = start(tmp_path, 2, "trap - EXIT; stop_showing; touch began", commands=commands)
    assert new.wait() == 0
    assert (tmp_path / "began").exists()


def test_an_old_copy_that_starts_late_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / ".segments-7").write_text("1 1\n")  # the new copy, which would end if another one began
    commands = COMMANDS.replace("Restarts=0", "Restarts=1")
    assert start(tmp_path, 1, "touch began", commands=commands).wait() == 143
    assert "Slurm has started it again" in (tmp_path / "log-1").read_text()
    assert (tmp_path / ".segments-7").read_text() == "1 1\n"
    assert not (tmp_path / "began").exists()


def test_no_segment_is_cancelled_while_a_job_that_waits_for_the_run_would_be_lost(tmp_path: Path) -> None:
    waiting = "printf '%s afterok:7_*(unfulfilled)\\n' 8 9"
    status, commands = segment(tmp_path, 1, 0, waiting)
    assert status == 0
    assert "scontrol update JobId=8 Dependency=afterok:7_1" in commands
    assert "scancel" not in commands, "job 8 still waits for the whole array"
    secrets = tmp_path / ".slurmgen/secrets"
    assert secrets.exists(), "the next segment removes them, in case Slurm runs this one again"
    assert segment(tmp_path, 2, 3, waiting)[0] == 0, "the run has finished, so it ends at once"
    assert not secrets.exists()


@pytest.mark.parametrize(("number", "status"), [(1, 0), (2, 75)])
def test_a_run_is_unfinished_after_its_last_segment_even_if_slurm_does_not_reply(
    number: int, status: int, tmp_path: Path
) -> None:
    (tmp_path / "unfinished").write_text("20")
    assert segment(tmp_path, number, 75, "return 1")[0] == status


def test_a_run_whose_last_segment_noted_unfinished_is_not_completed() -> None:
    last = requeued("slurmgen: segment 2 of 2 is unfinished, at step 20, 0 without progress")
    tasks = [JobState(id=f"7_{number}", state="COMPLETED", exit_code="0:0") for number in (1, 2)]
    assert run_state(tasks, last) == "FAILED"
    reason = why_unfinished("7", "FAILED", last, tasks)
    assert reason is not None
    assert reason.what == "the run is unfinished after 2 segments at step 20"
