"""The state of real jobs, on a Slurm with accounting that soon forgets jobs that have ended."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Completed, command_name
from slurmgen.slurm.commands import JobId
from slurmgen.status.job import Job
from slurmgen.status.query import query
from tests.conftest import Run
from tests.support.accounting import ACCOUNT, FEW_GPUS, forgetful
from tests.support.sshd import Server, closed_port
from tests.support.twins import Testbed, eventually, twin

Reply = subprocess.CompletedProcess[str]
WAY = Route(site="generic", via="local")
PYTHON = f"{sys.executable} -c"
ALL_RANKS = """for rank in 0 1; do
  echo "[rank$rank]: Traceback (most recent call last):"
  echo "[rank$rank]:   File 'train.py', line 1"
  echo "[rank$rank]: ValueError: of rank $rank"
done
echo 'Root Cause (first observed failure):'
echo '  rank      : 1 (local_rank: 1)'
exit 1"""
HOG = f"{PYTHON} 'import time; held = bytearray(300 << 20); time.sleep({{}})'"

# Name: the command, the options of sbatch, the state, the exit code of `wait`, and the reason.
ENDS: dict[str, tuple[str, list[str], str, int, str]] = {
    "good": ("true", [], "COMPLETED", 0, ""),
    "coded": ("exit 7", [], "FAILED", 7, "its script ended with exit code 7"),
    "module": (f"{PYTHON} 'import nosuch'", [], "FAILED", 1, "Python has no module nosuch"),
    "file": (f"{PYTHON} 'open(\"/no/such\")'", [], "FAILED", 1, "the file /no/such does not exist"),
    "script": (f"{sys.executable} no.py", [], "FAILED", 2, "Python did not find the script"),
    "command": ("nosuchcommand", [], "FAILED", 127, "command not found: nosuchcommand"),
    "forbidden": ("touch x && ./x", [], "FAILED", 126, "./x cannot be executed or read"),
    "raises": (f"{PYTHON} '1 / 0'", [], "FAILED", 1, "Python raised an error"),
    "ranks": (ALL_RANKS, [], "FAILED", 1, "Python raised an error (rank 1)"),
    "crash": ("kill -SEGV $$", [], "FAILED", 139, "it ended with SIGSEGV"),
    "port": (
        f'{PYTHON} \'import socket; a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen(); '
        "socket.create_server(a.getsockname())'",
        [],
        "FAILED",
        1,
        "a port was already in use",
    ),
    # Slurm 24.11 makes a folder that is missing.
    "no-log": ("true", ["--output=/dev/null/no/%j.log"], "FAILED", 1, "Slurm could not start it"),
    # Without cgroups, Slurm samples memory every second, kills the job, and reports FAILED.
    "memory": (HOG.format(60), ["--mem=100M"], "FAILED", 137, "it used more memory than the 100M it had"),
}


class Cluster:
    """A Slurm with accounting, jobs that were all submitted at the start, and slurmgen on its login node."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.state = testbed.folder / "records"
        self.ids: dict[str, str] = {}

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.state / "slurmgen/ledger.sqlite")

    def submit(self, name: str, body: str, *options: str) -> str:
        """Submit a job with sbatch, and record it as `slurmgen submit` would."""
        script = self.testbed.folder / f"{name}.sh"
        script.write_text(f"#!/bin/bash\n{body}\n")
        words = ["--parsable", f"--job-name={name}", "--mem=50M", "--output=%x-%j.log", *options]
        job = self.testbed.run("sbatch", *words, str(script)).strip()
        output = next((one.partition("=")[2] for one in reversed(words) if one.startswith("--output=")), "")
        self.ledger.add(
            Record(
                id=job,
                name=name,
                folder=str(self.testbed.folder),
                output=output,
                submitted="2020-01-01T00:00:00+00:00",
                **structs.asdict(WAY),
            )
        )
        self.ids[name] = job
        return job

    def slurmgen(self, *args: str, **more: str) -> Reply:
        environ = self.testbed.environ | {"XDG_STATE_HOME": str(self.state), **more}
        return subprocess.run(
            [sys.executable, "-m", "slurmgen", *args],
            cwd=self.testbed.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def json(self, *args: str) -> Any:
        reply = self.slurmgen(*args, "--json")
        assert reply.stdout, reply.stderr
        return json.loads(reply.stdout)

    def state_of(self, job: str) -> str:
        return str(self.json("status", job)["state"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with twin("generic", accounts=[ACCOUNT]) as testbed:
        forgetful(testbed)
        made = Cluster(testbed)
        # First, because the shortest time limit is a minute.
        made.submit("long", "sleep 600", "--time=1")
        for name, (body, options, *_) in reversed(ENDS.items()):
            made.submit(name, body, *options)
        yield made


def test_submit_with_an_account_of_others_is_refused(cluster: Cluster) -> None:
    (cluster.testbed.folder / "train.py").write_text("")
    job = ["--site", "generic", "--via", "local", "--framework", "python", "--script", "train.py"]
    reply = cluster.slurmgen("submit", *job, "--account", "nobodys", "--test-only")
    assert (reply.returncode, reply.stdout) == (3, "")
    assert "Invalid account" in reply.stderr


@pytest.mark.parametrize("name", ENDS)
def test_wait_returns_the_exit_code_and_status_shows_the_reason(cluster: Cluster, name: str) -> None:
    _, _, state, code, what = ENDS[name]
    reply = cluster.slurmgen("wait", name)
    assert reply.returncode == code, reply
    assert re.search(rf"^job {cluster.ids[name]} \({name}\) is {state}\b", reply.stdout, re.MULTILINE)
    # The database has the memory usage, which may be the reason, a moment later.
    eventually(lambda: f"why: {what}" in cluster.slurmgen("status", name).stdout if what else True)
    assert what or "why:" not in reply.stdout


def test_the_rank_that_failed_first_is_quoted(cluster: Cluster) -> None:
    assert "log: ValueError: of rank 1\n" in cluster.slurmgen("wait", "ranks").stdout


def test_a_job_that_the_controller_forgot_is_reported_by_accounting(cluster: Cluster) -> None:
    job = cluster.ids["coded"]
    cluster.slurmgen("wait", job)
    eventually(
        lambda: job not in cluster.testbed.tried("squeue", "--states=all", "--noheader", "--format=%i")
    )
    reported = cluster.json("status", job)
    assert (reported["state"], reported["exit_code"], reported["ended"]) == ("FAILED", 7, True)


def test_the_usage_of_an_ended_job_is_shown(cluster: Cluster) -> None:
    cluster.submit("hog", HOG.format(5), "--mem=1G", "--cpus-per-task=2", "--gpus=1", "--time=10")
    reported = cluster.json("wait", "hog")
    # The database has the row of the job before that of its step, which has the memory.
    eventually(lambda: (cluster.json("status", "hog")["usage"] or {}).get("memory_used"))
    usage = cluster.json("status", "hog")["usage"]
    assert (reported["state"], usage["memory"], usage["cpus"], usage["gpus"]) == ("COMPLETED", 1024, 2, 1)
    assert 300 <= usage["memory_used"] < 1024
    shown = cluster.slurmgen("status", "hog").stdout
    assert f"used: memory {usage['memory_used']}M of 1G, " in shown
    assert " % of 2 CPUs, " in shown
    assert "unknown use of 1 GPU\n" in shown
    assert reported["enough"]["time"] == "00:05:00"
    assert "  enough: --time 00:05:00\n" in shown


def test_an_array_is_shown_as_a_summary_with_its_tasks(cluster: Cluster) -> None:
    job = cluster.submit("many", "exit $((SLURM_ARRAY_TASK_ID == 2))", "--array=0-3", "--output=%x-%A_%a.log")
    reply = cluster.slurmgen("wait", job)
    assert reply.returncode == 1
    lines = reply.stdout.splitlines()
    assert lines[0] == f"job {job} (many) is FAILED, an array of 4: 3 COMPLETED, 1 FAILED"
    assert f"job {job}_2 (many) is FAILED" in lines[1]
    reported = cluster.json("status", job)
    assert {one["id"]: one["exit_code"] for one in reported["tasks"]} == {
        f"{job}_{task}": int(task == 2) for task in range(4)
    }
    assert cluster.json("status", f"{job}_2")["exit_code"] == 1
    assert cluster.slurmgen("wait", f"{job}_1").returncode == 0


def test_a_pending_job_is_shown_with_its_reason_and_expected_start(cluster: Cluster) -> None:
    later = cluster.submit("later", "true", "--begin=now+2hours")
    greedy = cluster.submit("greedy", "true", "--gpus=2", f"--qos={FEW_GPUS}")
    after = cluster.submit("after", "true", f"--dependency=afterok:{later}")
    # A job has no reason until the scheduler has considered it.
    eventually(lambda: cluster.json("status", greedy)["reason"] == "QOSMaxGRESPerUser")
    shown = cluster.slurmgen("status", later, greedy, after).stdout
    assert f"job {later} (later) is PENDING (BeginTime)\n  why: it waits for its start time" in shown
    assert "  expected to start at 2" in shown
    assert "why: its QoS has a limit on the GPUs of one user at a time, which is reached" in shown
    assert "(Dependency)\n  why: it waits for another job" in shown
    over = cluster.slurmgen("wait", later, "good", "--timeout", "0")
    assert over.returncode == 124
    assert f"job {later} has not ended after 0 s" in over.stderr
    assert cluster.slurmgen("cancel", later, greedy, after).returncode == 0
    assert cluster.slurmgen("wait", greedy).returncode == 143


def test_the_last_run_of_a_requeued_job_counts(cluster: Cluster) -> None:
    job = cluster.submit("again", "sleep 600", "--requeue")
    eventually(lambda: cluster.state_of(job) == "RUNNING")
    cluster.testbed.run("scontrol", "requeue", job)
    eventually(lambda: cluster.state_of(job) == "PENDING")
    duplicates = ["sacct", "--duplicates", "--noheader", "--allocations", f"--jobs={job}", "--format=State"]
    eventually(lambda: "REQUEUED" in cluster.testbed.tried(*duplicates))
    assert cluster.json("status", job)["ended"] is False
    cluster.slurmgen("cancel", job)
    assert cluster.json("wait", job)["state"] == "CANCELLED"


def test_cancel_reports_jobs_that_have_ended_and_jobs_that_are_unknown(cluster: Cluster) -> None:
    jobs = [cluster.submit(f"sleeper{n}", "sleep 600") for n in range(2)]
    cluster.slurmgen("wait", "good")
    reply = cluster.slurmgen("cancel", *jobs, "good")
    assert reply.returncode == 0, reply
    assert all(f"asked Slurm to cancel job {job}\n" in reply.stderr for job in jobs)
    assert f"job {cluster.ids['good']} has ended already" in reply.stderr
    assert cluster.slurmgen("wait", *jobs).returncode == 143
    eventually(lambda: "by user" in cluster.slurmgen("status", jobs[0]).stdout)
    unknown = cluster.slurmgen("cancel", "999999", "--site", "generic", "--via", "local")
    assert unknown.returncode == 3
    assert "job 999999 is gone from the records" in unknown.stdout


def test_jobs_are_named_as_last_and_as_one_task_of_an_array(cluster: Cluster) -> None:
    job = cluster.submit("last one", "sleep 600", "--array=1-2", "--output=%x-%A_%a.log")
    assert cluster.json("status", "last")["id"] == job
    eventually(lambda: {one["state"] for one in cluster.json("status", "last")["tasks"]} == {"RUNNING"})
    assert cluster.slurmgen("cancel", f"{job}_1").returncode == 0
    assert cluster.slurmgen("wait", f"{job}_1").returncode == 143
    assert cluster.json("status", f"{job}_2")["ended"] is False
    assert "cancel job" in cluster.slurmgen("cancel", "last").stderr
    assert cluster.slurmgen("wait", "last one").returncode == 143


def test_wait_for_several_jobs_returns_the_code_of_the_first_that_failed(cluster: Cluster) -> None:
    reply = cluster.slurmgen("wait", "good", "coded", "crash", "--json")
    assert reply.returncode == 7
    reported = json.loads(reply.stdout)["jobs"]
    assert [one["name"] for one in reported] == ["good", "coded", "crash"]
    assert [one["state"] for one in reported] == ["COMPLETED", "FAILED", "FAILED"]


def test_logs_shows_several_logs_and_describes_them_as_json(cluster: Cluster) -> None:
    cluster.slurmgen("wait", "coded", "ranks")
    shown = cluster.slurmgen("logs", "coded", "ranks").stdout
    path = f"{cluster.testbed.folder}/ranks-{cluster.ids['ranks']}.log"
    assert f"==> job {cluster.ids['ranks']} at generic: {path} <==\n[rank0]: Traceback" in shown
    reported = cluster.json("logs", "ranks")
    assert reported == {
        "id": cluster.ids["ranks"],
        "site": "generic",
        "path": path,
        "size": Path(path).stat().st_size,
        "text": True,
    }
    Path(path).write_bytes(b"\x7fELF\0")
    assert cluster.json("logs", "ranks")["text"] is False
    assert cluster.json("logs", "no-log")["size"] is None


class Counting(LocalTransport):
    """Counts what it runs."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__(environment)
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        self.ran.append(command_name(argv))
        return super().run(argv, **more)


def test_two_hundred_jobs_take_one_login_and_one_squeue_and_sacct_for_each_of_two_replies(
    cluster: Cluster,
) -> None:
    ended = cluster.submit("ended", "true", "--array=0-9", "--output=/dev/null")
    waiting = cluster.submit("waiting", "true", "--array=0-189", "--begin=now+2hours")
    cluster.slurmgen("wait", ended)
    jobs = [Job(JobId(f"{ended}_{n}"), WAY) for n in range(10)]
    jobs += [Job(JobId(f"{waiting}_{n}"), WAY) for n in range(190)]
    logins: list[Counting] = []

    def connect(_route: Route) -> Counting:
        logins.append(Counting(cluster.testbed.twin.environ()))
        return logins[-1]

    def states() -> list[str]:
        logins.clear()
        return [report.state for report in query(jobs, connect)]

    # Until the database has all of them, one scontrol is queried for their exit codes.
    eventually(lambda: states() and "sh" not in logins[0].ran)
    assert states() == ["COMPLETED"] * 10 + ["PENDING"] * 190
    assert len(logins) == 1
    assert logins[0].ran == ["squeue", "sacct"] * 2
    assert "is CANCELLED" in cluster.slurmgen("cancel", f"{waiting}_3").stdout
    cluster.slurmgen("cancel", waiting)


def test_a_site_that_is_not_reached_does_not_hide_the_others_in_the_list(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = Server(tmp_path, closed_port())
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAA\n")
    away = structs.asdict(Route(site="daic", via="ssh", host="far", ssh_config=config.config(tmp_path)))
    rest = {"name": "n", "folder": "/f", "output": "o", "submitted": "2020-01-01"}
    mine = Cluster(cluster.testbed)
    mine.state = tmp_path / "records"
    mine.ledger.add(Record(id="5", **away, **rest))
    mine.ledger.add(Record(id=cluster.ids["good"], **structs.asdict(WAY), **{**rest, "name": "good"}))
    mine.ledger.add(Record(id="", **structs.asdict(WAY), **rest, state="pending", key="k"))
    cluster.slurmgen("wait", "good")
    reply = mine.slurmgen("status")
    assert reply.returncode == 3
    _, away_row, good, unsettled, *more = reply.stdout.splitlines()
    assert away_row.split()[:4] == ["5", "n", "daic", "UNKNOWN"]
    assert good.split()[:4] == [cluster.ids["good"], "good", "generic", "COMPLETED"]
    assert unsettled.split()[:4] == ["-", "n", "generic", "UNKNOWN"]
    below = " ".join(" ".join(more).split())
    assert "`slurmgen forget k`" in below
    assert "daic: not reached: " in below
    reported = mine.json("status")["jobs"]
    assert [(one["site"], one["state"]) for one in reported] == [
        ("daic", "UNKNOWN"),
        ("generic", "COMPLETED"),
        ("generic", "UNKNOWN"),
    ]
    assert mine.slurmgen("status", "--site", "generic").returncode == 0
    assert "it is not known whether" in mine.slurmgen("cancel", "last").stderr


PYTHON = "--site generic --via local --script a.py --framework python"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("status older", 0, "is GONE: Slurm has given its id to another job, newer"),
        ("wait older", 3, "is GONE: Slurm has given its id to another job, newer"),
        ("cancel older", 3, "is GONE: Slurm has given its id to another job, newer"),
        ("shell older", 2, "is not in the queue"),
        ("port older 8080", 2, "is not in the queue"),
        (f"submit {PYTHON} --after older", 2, "Slurm does not know"),
    ],
)
def test_an_older_job_of_an_id_that_slurm_used_again_is_not_taken_for_the_new_one(
    cluster: Cluster, words: str, code: int, text: str
) -> None:
    """Seen after slurmctld was killed: two submissions in a row received one id."""
    testbed = cluster.testbed
    newer = cluster.ids.get("newer") or cluster.submit("newer", "sleep 600")
    (testbed.folder / "a.py").write_text("")
    key = "20190301-100000-0123abcd"
    if not cluster.ledger.of_key(key):
        (record,) = cluster.ledger.with_id(newer)
        older = {"name": "older", "key": key, "folder": f"/far/runs/older-{key}"}
        cluster.ledger.add(structs.replace(record, submitted="2019-03-01T10:00:00+00:00", **older))
    eventually(lambda: "RUNNING" in testbed.run("squeue", "--noheader", f"--jobs={newer}", "--format=%T"))
    reply = cluster.slurmgen(*words.split())
    assert (reply.returncode, text in reply.stdout + reply.stderr) == (code, True), reply
    assert "RUNNING" in testbed.run("squeue", "--noheader", f"--jobs={newer}", "--format=%T")
    assert "is RUNNING" in cluster.slurmgen("status", "newer").stdout


def test_a_job_on_a_twin_is_not_queried_over_ssh(slurmgen: Run) -> None:
    route = structs.asdict(Route(site="generic", via="twin"))
    Ledger().add(Record(id="7", **route, name="n", folder="/f", output="o", submitted="t"))
    reply = slurmgen("status", "7", "--via", "ssh")
    assert reply.returncode == 2
    assert "job 7 is on the twin of generic on this machine" in reply.stderr
    assert "GONE" in slurmgen("status").stdout


def test_wait_reports_a_job_that_reached_its_time_limit(cluster: Cluster) -> None:
    reply = cluster.slurmgen("wait", "long")
    assert reply.returncode == 143
    assert "(long) is TIMEOUT" in reply.stdout
    assert "why: it reached its time limit of 00:01:00\n" in reply.stdout
