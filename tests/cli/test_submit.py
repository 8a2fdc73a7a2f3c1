"""What `slurmgen submit` prints and refuses, and how the same command settles a submission."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import JOB, WAY, Machine

ACCEPTS = 'n=$(cat ~/count 2>/dev/null || echo 10); echo $((n + 1)) | tee ~/count; echo "$@" >>~/calls'
DOWN = "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller' >&2; exit 1"


@pytest.fixture
def machine(tmp_path: Path, slurmgen: Run) -> Machine:
    made = Machine(tmp_path, slurmgen)
    made.answers("sbatch", ACCEPTS)
    made.answers("squeue", "exit 0")
    return made


def calls(machine: Machine) -> list[str]:
    return (machine.home / "calls").read_text().splitlines()


def submit_json(machine: Machine) -> dict[str, Any]:
    code, out, err = machine.submit("--json")
    assert code == 0, err
    return dict(json.loads(out))


def test_each_settled_submission_is_a_new_job(machine: Machine) -> None:
    assert [machine.submit()[:2] for _ in range(2)] == [(0, "11\n"), (0, "12\n")]
    assert [(one.id, one.pending) for one in Ledger().all()] == [("11", False), ("12", False)]


def test_the_same_command_settles_an_unsettled_submission(machine: Machine) -> None:
    machine.answers("sbatch", DOWN)
    machine.answers("squeue", "echo 'squeue: error: Unable to contact' >&2; exit 1")
    code, out, err = machine.submit()
    assert (code, out) == (3, "")
    assert "error: whether there is a job is not known: sbatch: " in err
    assert "The same command again finds the job, or submits it if there is none." in err
    (entry,) = Ledger().all()
    assert (entry.id, entry.pending) == ("", True)
    machine.answers("sbatch", ACCEPTS)
    machine.answers("squeue", f"echo '77|slurmgen:{entry.key}|/f'")
    code, out, err = machine.submit()
    assert (code, out) == (0, "77\n")
    assert f"the submission of {entry.submitted} is unsettled" in err
    assert "job 77 is the earlier submission" in err
    assert not (machine.home / "calls").exists()
    assert [(one.id, one.key, one.pending) for one in Ledger().all()] == [("77", entry.key, False)]


def test_again_submits_a_new_job_although_a_submission_is_unsettled(machine: Machine) -> None:
    machine.answers("sbatch", DOWN)
    machine.answers("squeue", "exit 1")
    assert machine.submit()[0] == 3
    machine.answers("sbatch", ACCEPTS)
    assert machine.submit("--again")[:2] == (0, "11\n")
    assert [one.id for one in Ledger().all()] == ["", "11"]


def test_a_submission_that_came_too_late_to_sbatch_is_repeated(machine: Machine) -> None:
    machine.answers("sync", '[ -e "$1/intent.2" ] || touch "$1/intent.1.over"')
    assert machine.submit()[:2] == (0, "11\n")
    assert len(calls(machine)) == 1


def test_a_submission_that_always_comes_too_late_is_an_error_without_a_job(machine: Machine) -> None:
    machine.answers("sync", 'for n in 1 2 3 4 5 6; do touch "$1/intent.$n.over"; done')
    code, out, err = machine.submit()
    assert (code, out) == (3, "")
    assert "another process has given up this attempt" in err
    assert not (machine.home / "calls").exists()
    machine.answers("sync", "exit 0")
    assert machine.submit()[:2] == (0, "11\n")


def test_a_refused_job_leaves_no_entry_and_may_be_submitted_later(machine: Machine) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination"
    machine.answers("sbatch", f"echo '{words} specified' >&2; exit 1")
    code, _, err = machine.submit()
    assert code == 3
    assert "error: sbatch: Batch job submission failed: Invalid account" in err
    assert Ledger().all() == ()
    machine.answers("sbatch", ACCEPTS)
    assert machine.submit()[:2] == (0, "11\n")


def test_an_unreachable_host_leaves_no_entry(machine: Machine) -> None:
    assert machine.submit("--via", "ssh", "--host", "user@127.0.0.1")[0] == 3
    assert Ledger().all() == ()


def test_the_comment_of_the_user_comes_before_the_key(machine: Machine) -> None:
    machine.submit("--sbatch", "comment=all mine")
    (entry,) = Ledger().all()
    assert f"--comment=all mine slurmgen:{entry.key} " in calls(machine)[0]


def test_an_id_that_cannot_be_printed_is_in_the_error_and_in_the_ledger(machine: Machine) -> None:
    words = [sys.executable, "-m", "slurmgen", "submit", *JOB]
    with Path("/dev/full").open("w") as full:
        reply = subprocess.run(
            words, cwd=machine.project, env=machine.environ, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert reply.returncode == 2
    assert "error: job 11 is submitted, but its id could not be printed: No space left" in reply.stderr
    assert [one.id for one in Ledger().all()] == ["11"]


def test_the_files_that_a_command_writes_its_output_to_are_not_sent(machine: Machine) -> None:
    words = shlex.join([sys.executable, "-m", "slurmgen", "submit", *JOB])
    (machine.project / "old.log").write_text("sent")
    for _ in range(2):
        shell = ["sh", "-c", f"{words} >>id.txt 2>>submit.log"]
        subprocess.run(shell, cwd=machine.project, env=machine.environ, check=True)
    assert (machine.project / "id.txt").read_text() == "11\n12\n"
    notices = (machine.project / "submit.log").read_text()
    assert notices.count("not sent: 'submit.log', the output of this command") == 2
    for run in (machine.home / "slurmgen/project/runs").iterdir():
        assert {path.name for path in run.iterdir()} >= {"old.log", "train.py"}
        assert not list(run.glob("id.txt")) + list(run.glob("submit.log"))


def test_submit_works_without_standard_error(machine: Machine) -> None:
    words = shlex.join([sys.executable, "-m", "slurmgen", "submit", *JOB])
    reply = subprocess.run(
        ["sh", "-c", f"{words} 2>&-"],
        cwd=machine.project,
        env=machine.environ,
        capture_output=True,
        text=True,
    )
    assert (reply.returncode, reply.stdout) == (0, "11\n")


def test_json_prints_the_job_and_nothing_else(machine: Machine) -> None:
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *who, *words], cwd=machine.project, check=True)
    shown = submit_json(machine)
    assert (shown["id"], shown["name"], shown["earlier"], shown["dirty"]) == ("11", "train", False, False)
    assert len(shown["commit"]) == 40
    (machine.project / "more").write_text("x")
    shown = submit_json(machine)
    assert shown["dirty"]
    (folder,) = (machine.home / "slurmgen/project/submissions").glob(f"*{shown['key']}")
    record = json.loads((folder / "record.json").read_text())
    assert (record["commit"], record["dirty"], record["key"]) == (shown["commit"], True, shown["key"])
    assert (folder / "record.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_dry_run_shows_what_would_be_sent_and_what_was_sent_before(machine: Machine) -> None:
    (machine.project / "data").write_text("x")
    shown = json.loads(machine.submit("--dry-run", "--json")[1])
    assert (shown["files"], shown["bytes"]) == (["data", "train.py"], 1)
    assert "no file of this project was sent to that folder before" in machine.submit("--dry-run")[2]
    machine.submit()
    (machine.project / "data").write_text("y")
    assert "1 file sent before; 1 and the batch script to send now" in machine.submit("--dry-run")[2]


def test_a_too_large_project_is_refused_with_its_biggest_files(machine: Machine) -> None:
    for number in range(7):
        (machine.project / f"model-{number}").write_bytes(bytes(300_000 + number))
    code, out, err = machine.submit("--max-size", "1M")
    assert (code, out) == (2, "")
    assert "the project has 2.1M, more than 1M; its biggest files are model-6 (293K), model-5" in err
    assert "--max-size" in err
    assert machine.submit("--max-size", "3M")[0] == 0
    assert machine.submit("--max-size", "much")[0] == 2
    assert "more than 1K" in machine.submit("--max-size", "1k")[2]


def test_an_array_is_neither_followed_nor_submitted(machine: Machine) -> None:
    code, out, err = machine.submit("--sbatch", "array=0-3", "--follow")
    assert (code, out) == (2, "")
    assert "each task of an array has its own" in err
    assert not (machine.home / "slurmgen").exists()


def test_the_bundled_example_of_a_job_without_a_script_is_named(machine: Machine) -> None:
    (machine.project / "slurmgen.toml").write_text("[job.a]\n")
    reply = machine.slurmgen("submit", "a", "--site", "generic", "--via", "local", "--dry-run")
    assert "no script is named: the bundled example training/train_ddp.py is sent" in reply[2]
    assert "no script is named" not in machine.submit("--dry-run")[2]


def test_follow_reports_a_pending_job(machine: Machine) -> None:
    # Pending in the first reply, gone in later ones: how it ended is not known, thus exit code 3.
    machine.answers(
        "squeue",
        "[ ! -e ~/called ] || exit 0; touch ~/called; echo '11|PENDING|Priority|0:00|1:00|N/A||||||train'",
    )
    code, out, err = machine.submit("--follow")
    assert (code, out) == (3, "11\n"), err
    assert "job 11 is PENDING (Priority); its log follows when it starts" in err


def test_a_terminal_shows_how_much_is_sent_and_a_file_does_not(machine: Machine) -> None:
    (machine.project / "data").write_bytes(os.urandom(200_000))
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "slurmgen", "submit", *JOB]
    environ = {**machine.environ, "TERM": "xterm", "COLUMNS": "120"}
    options = {"cwd": machine.project, "env": environ, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, stderr=follower, **options) as process:  # type: ignore[call-overload]
        os.close(follower)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while chunk := os.read(leader, 65536):
                shown += chunk
        assert process.communicate()[0] == "11\n"
    os.close(leader)
    assert b"sending" in shown
    amounts = re.findall(rb"([0-9.]+)K of 195.4K", shown)
    assert max(map(float, amounts)) <= 195.4
    assert b"submitted job 11" in shown
    assert "sending" not in machine.submit()[2]


def test_the_folder_of_a_job_is_printed_and_opened(machine: Machine) -> None:
    machine.submit()
    (entry,) = Ledger().all()
    assert machine.slurmgen("path", "last")[:2] == (0, f"{entry.folder}\n")
    environ = {**machine.environ, "SHELL": "/bin/sh"}
    shell = machine.run("ssh", "last", cwd=machine.project, env=environ, input="pwd -P\nexit 4\n")
    assert (shell.returncode, shell.stdout) == (4, f"{os.path.realpath(entry.folder)}\n")
    Ledger().add(structs.replace(entry, id="77", key="k", via="ssh", host="me@far"))
    assert machine.slurmgen("path", "77")[1] == f"me@far:{entry.folder}\n"
    unknown = machine.slurmgen("path", "99", *WAY)
    assert (unknown[0], "the folder of job 99 is not known" in unknown[2]) == (2, True)
