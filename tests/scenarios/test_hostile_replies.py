"""The commands against a Slurm that answers as few do: with escapes, without sacct, at a bad moment."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.sites.profiles import profile_paths
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import states_text
from tests.conftest import Run
from tests.support.programs import write_programs
from tests.support.sshd import Server, closed_port
from tests.support.twins import eventually

EVIL = "\x1b]0;pwned\x07a\x9b2J\u202eb"
SHOWN = r"\x1b]0;pwned\x07a\x9b2J\u202eb"
WAY = ("--site", "generic", "--via", "local")
JOB = (*WAY, "--framework", "python", "--script", "train.py")
UNKNOWN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


NOT_THERE = "exit 127"  # as a shell says it


class Machine:
    """This machine with made-up Slurm commands, and the project that is submitted from it."""

    def __init__(self, folder: Path, slurmgen: Run) -> None:
        self.bin, self.project, self.home = folder / "bin", folder / "project", folder / "home"
        for made in (self.bin, self.project, self.home):
            made.mkdir()
        (self.project / "train.py").write_text("")
        self.environ = {**os.environ, "HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin"}
        self.run = slurmgen
        for name in ("squeue", "scontrol"):
            self.answers(name, UNKNOWN)
        self.answers("sacct", NOT_THERE)

    def answers(self, name: str, script: str) -> None:
        write_programs(self.bin, {name: script})

    def says(self, name: str, text: str) -> None:
        (self.bin / f"{name}.txt").write_text(text)
        self.answers(name, f"cat '{self.bin / name}.txt'")

    def slurmgen(self, *args: str) -> "tuple[int, str, str]":
        reply = self.run(*args, cwd=self.project, env=self.environ)
        return reply.returncode, reply.stdout, reply.stderr

    def submit(self, *args: str) -> "tuple[int, str, str]":
        return self.slurmgen("submit", *JOB, *args)


def full_pipe() -> int:
    """The write end of a pipe that takes no byte more: nothing reads it."""
    _, pipe = os.pipe()
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 65536)
    os.set_blocking(pipe, True)
    return pipe


@pytest.mark.parametrize("words", [("submit", *JOB), ("submit", *JOB, "--json")])
def test_a_client_that_is_killed_before_it_has_printed_the_id_finds_the_job_again(
    machine: "Machine", words: tuple[str, ...]
) -> None:
    machine.answers("sbatch", "echo x >>~/jobs; echo 12")
    command = [sys.executable, "-m", "slurmgen", *words]
    client = subprocess.Popen(
        command, cwd=machine.project, env=machine.environ, stdout=full_pipe(), stderr=subprocess.DEVNULL
    )
    eventually(lambda: Path(f"/proc/{client.pid}/syscall").read_text().startswith("1 0x1 "))
    client.kill()
    client.wait()
    code, out, err = machine.slurmgen(*words)
    assert (code, "12" in out, "job 12 is the earlier submission" in err) == (0, True, True)
    assert (machine.home / "jobs").read_text() == "x\n"


@pytest.fixture
def machine(tmp_path: Path, slurmgen: Run) -> Machine:
    return Machine(tmp_path, slurmgen)


def test_a_broken_ledger_is_reported_before_anything_is_sent(machine: Machine) -> None:
    machine.answers("sbatch", "touch ~/submitted; echo 12")
    path = Ledger().path
    path.parent.mkdir(parents=True)
    path.write_text("no database, and long enough to be sure of it" * 100)
    code, out, err = machine.submit()
    assert (code, out) == (2, "")
    assert f"error: cannot use {path}" in err
    assert list(machine.home.iterdir()) == []


def test_the_profile_says_what_to_do_about_a_refusal_of_the_site(machine: Machine) -> None:
    (machine.project / "site_profiles").mkdir()
    (machine.project / "site_profiles/mine.toml").write_text(
        '[refusals]\n"Memory specification" = "Leave --mem out: memory follows the GPUs."\n'
    )
    machine.answers("sbatch", "echo 'sbatch: error: Memory specification can not be satisfied' >&2; exit 1")
    code, _, err = machine.slurmgen(
        "submit", "--site", "mine", "--via", "local", "--framework", "python", "--script", "train.py"
    )
    assert code == 3
    advice = "site_profiles/mine.toml says: “Leave --mem out: memory follows the GPUs.”"
    assert f"Memory specification can not be satisfied. {advice}" in err


def test_a_ledger_that_breaks_meanwhile_does_not_make_a_job_look_refused(machine: Machine) -> None:
    path = Ledger().path
    machine.answers("sbatch", f"head -c 9999 /dev/zero > '{path}'; echo 12")
    code, out, err = machine.submit()
    assert (code, out) == (0, "12\n")
    (folder,) = (machine.home / "slurmgen/project/runs").iterdir()
    assert f"warning: job 12 is submitted, in {folder}, but not in your records: cannot use {path}" in err
    assert "error" not in err.replace("sqlite", "")


NO_SLURM = "`sinfo` should work in a shell on that host"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("sbatch: unrecognized option '--nosuch=3'", "unrecognized option '--nosuch=3'"),
        ("sbatch: fatal: Could not establish a configuration source", NO_SLURM),
        ("sbatch: fatal: Unable to process configuration file", NO_SLURM),
        ("sbatch: error: Unable to establish control machine address", NO_SLURM),
    ],
)
def test_a_submission_that_never_reached_slurm_is_not_pending(
    machine: Machine, reply: str, expected: str
) -> None:
    machine.answers("sbatch", f'echo "{reply}" >&2; exit 1')
    code, out, err = machine.submit()
    assert (code, out) == (3, "")
    assert expected in err
    assert "not known" not in err
    assert "Check the free space" not in err
    machine.answers("sbatch", "echo 12")
    assert machine.submit()[:2] == (0, "12\n")
    assert [one.id for one in Ledger().all()] == ["12"]


def test_a_machine_without_slurm_is_not_a_login_node(machine: Machine, slurmgen: Run, tmp_path: Path) -> None:
    programs = tmp_path / "few programs"
    programs.mkdir()
    for name in ("sh", "bash", "git"):
        (programs / name).symlink_to(shutil.which(name) or "")
    environ = {**machine.environ, "PATH": str(programs)}
    job = ["--site", "generic", "--framework", "python", "--script", "train.py"]
    for command in (["submit", *job], ["status", "12", "--site", "generic"]):
        reply = slurmgen(*command, cwd=machine.project, env=environ)
        assert (reply.returncode, reply.stdout) == (2, "")
        assert (
            "this machine (--via local, the default without a login host), which has no Slurm" in reply.stderr
        )
        assert all(way in reply.stderr for way in ("--host", "personal.toml", "[login] host"))
    assert Ledger().all() == ()
    assert slurmgen("submit", *job, "--dry-run", cwd=machine.project, env=environ).returncode == 0


def test_a_ledger_of_a_newer_version_is_reported(machine: Machine) -> None:
    Ledger().check()
    with closing(sqlite3.connect(Ledger().path)) as database:
        database.execute("PRAGMA user_version = 99")
    code, out, err = machine.submit()
    assert (code, out) == (2, "")
    assert "was written by a newer slurmgen" in err
    assert machine.slurmgen("status")[0] == 2


def test_a_job_is_recorded_although_its_id_is_not_read(machine: Machine) -> None:
    machine.answers("sbatch", "echo 12")
    command = [sys.executable, "-m", "slurmgen", "submit", *JOB]
    with Path("/dev/full").open("w") as full:
        subprocess.run(command, cwd=machine.project, env=machine.environ, stdout=full, check=False)
    assert [one.id for one in Ledger().all()] == ["12"]


def test_without_sacct_an_old_job_is_gone_and_no_error(machine: Machine) -> None:
    code, out, _ = machine.slurmgen("status", "12", *WAY)
    assert code == 0
    assert "job 12 is gone from the records" in out


def test_without_squeue_it_is_an_error(machine: Machine) -> None:
    machine.answers("squeue", NOT_THERE)
    code, out, err = machine.slurmgen("status", "12", *WAY)
    assert (code, out) == (3, "")
    assert "there is no squeue on this machine" in err


def test_the_name_of_a_job_steers_no_terminal(machine: Machine) -> None:
    machine.says("squeue", f"12|RUNNING|None|0:01|1:00|N/A|n\x1b[1m|||||{EVIL}\n")
    for command in ("status", "cancel"):
        machine.answers("scancel", "exit 0")
        code, out, _ = machine.slurmgen(command, "12", *WAY)
        assert (code, out) == (0, f"job 12 ({SHOWN}) is RUNNING after 00:00:01 on n\\x1b[1m\n")


def test_the_records_steer_no_terminal(machine: Machine) -> None:
    Ledger().add(
        Record(
            id="7", site="s", via="local", name=f"a\n8 {EVIL}", folder=f"/{EVIL}", output="o", submitted="t"
        )
    )
    machine.environ["COLUMNS"] = "200"
    code, out, _ = machine.slurmgen("status")
    assert code == 0
    (row,) = out.splitlines()[1:]
    assert row.split() == ["7", "a\\n8", SHOWN, "s", "GONE", "-", "t"]


def test_json_steers_no_terminal_and_loses_nothing_of_a_name(machine: Machine) -> None:
    machine.says("squeue", f"12|RUNNING|None|0:01|1:00|N/A|n1|||||{EVIL}\n")
    code, out, _ = machine.slurmgen("status", "12", *WAY, "--json")
    assert code == 0
    assert out.isascii()
    assert not re.search(r"[\x00-\x1f]", out.rstrip("\n"))
    assert json.loads(out)["name"] == EVIL


def test_json_has_names_that_are_no_utf_8(machine: Machine) -> None:
    (machine.project / os.fsdecode(b"caf\xe9")).write_text("")
    code, out, err = machine.submit("--dry-run", "--json")
    assert code == 0, err
    assert os.fsdecode(b"caf\xe9") in json.loads(out)["files"]


def test_a_name_that_looks_like_an_id_is_one_where_no_record_has_that_id(machine: Machine) -> None:
    own = {"site": "generic", "via": "local", "folder": "/f", "output": "%j", "submitted": "2020-01-01"}
    rows = [f"{id_}|RUNNING|None|0:01|1:00|N/A|n1|||||{name}" for id_, name in (("7", "123"), ("8", "12_3"))]
    for name, id_ in (("123", "7"), ("12_3", "8")):
        Ledger().add(Record(id=id_, name=name, **own))  # type: ignore[arg-type]
        machine.says("squeue", "\n".join(rows))
        assert machine.slurmgen("status", name)[1].startswith(f"job {id_} ({name}) is RUNNING")
    # A site that is named may know a job of that id.
    assert machine.slurmgen("status", "123", *WAY)[1].startswith("job 123 is gone from the records")
    Ledger().add(Record(id="123", name="other", **own))  # type: ignore[arg-type]
    machine.says("squeue", "123|RUNNING|None|0:01|1:00|N/A|n1|||||other\n")
    assert machine.slurmgen("status", "123")[1].startswith("job 123 (other) is RUNNING")


def test_what_a_trial_says_steers_no_terminal(machine: Machine) -> None:
    machine.says("sbatch", f"sbatch: {EVIL}\n")
    machine.answers("sbatch", f"cat '{machine.bin}/sbatch.txt' >&2")
    code, out, err = machine.submit("--test-only")
    assert (code, out) == (0, "")
    assert err == f"generic would accept the job: {SHOWN}\n"


def test_the_folder_of_a_log_steers_no_terminal_but_the_log_may(machine: Machine) -> None:
    log = machine.home / f"{EVIL}.log"
    machine.says("scontrol", f"JobId=12 JobName=a\n   JobState=COMPLETED Reason=None\n   StdOut={log}\n")
    code, out, err = machine.slurmgen("logs", "12", *WAY)
    assert (code, out) == (0, "")
    assert f"{machine.home}/{SHOWN}.log is empty or does not exist\n" in err
    log.write_text("\x1b[1mbold\n")
    assert machine.slurmgen("logs", "12", *WAY)[1] == "\x1b[1mbold\n"


def test_the_names_of_files_steer_no_terminal(machine: Machine) -> None:
    (machine.project / EVIL).write_text("")
    code, _, err = machine.submit("--dry-run")
    assert code == 0
    assert f"  {SHOWN}\n" in err


def test_a_profile_steers_no_terminal(machine: Machine) -> None:
    (machine.project / "slurmgen.toml").write_text("")
    (machine.project / "site_profiles").mkdir()
    profile = 'name = "mine"\ntitle = "x\x9b\u202ey"\n'
    (machine.project / "site_profiles/mine.toml").write_text(profile)
    for args in (["sites"], ["sites", "show", "mine"], ["sites", "show", "mine", "--json"]):
        code, out, err = machine.slurmgen(*args)
        assert code in (1, 2)
        assert "has a control character" in err
        assert not {"\x9b", "\u202e"} & {*out, *err}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--via", "local"], "would submit to site generic, from this machine\n"),
        (["--via", "twin"], "would submit to site generic, to its twin here\n"),
        (["--via", "ssh", "--host", "me@far"], "would submit to site generic, through me@far over SSH\n"),
    ],
)
def test_a_dry_run_names_its_target(machine: Machine, args: list[str], expected: str) -> None:
    code, out, err = machine.submit("--dry-run", *args)
    assert code == 0
    assert out.startswith("#!/bin/bash")
    assert err.startswith(expected)
    assert " to ~/slurmgen/project/runs/train-2" in err


@pytest.mark.parametrize("first", ["--dry-run", "--test-only"])
@pytest.mark.parametrize("more", ["--follow", "--dry-run --test-only --follow", "--dry-run --test-only"])
def test_only_one_thing_is_done_at_a_time(machine: Machine, first: str, more: str) -> None:
    code, out, err = machine.submit(first, *more.split())
    assert (code, out) == (2, "")
    assert "exclude each other" in err


def test_a_broken_profile_does_not_hide_the_others(machine: Machine) -> None:
    (machine.project / "slurmgen.toml").write_text("")
    (machine.project / "site_profiles").mkdir()
    (machine.project / "site_profiles/broken.toml").write_text("nonsense")
    for words in (["sites"], ["sites", "list"]):
        code, out, err = machine.slurmgen(*words)
        assert code == 1
        assert [line.split()[0] for line in out.splitlines()] == list(profile_paths(personal=False))
        assert err.startswith("error: ")
        assert "broken.toml" in err


def test_a_database_that_is_down_makes_no_job_gone(machine: Machine) -> None:
    machine.answers("sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
    code, out, _ = machine.slurmgen("status", "12", *WAY)
    assert code == 3
    assert out == "job 12 is UNKNOWN: sacct: Problem talking to the database\n"
    machine.says("squeue", "12|COMPLETED|None|0:01|1:00|N/A|n1|||||a\n")
    code, out, _ = machine.slurmgen("status", "12", *WAY)
    assert (code, out) == (0, "job 12 (a) is COMPLETED after 00:00:01 on n1\n")


def test_without_accounting_the_controller_tells_how_a_job_ended(machine: Machine) -> None:
    machine.says("squeue", "12|FAILED|NonZeroExitCode|0:01|1:00|N/A|n1|||||a\n")
    machine.says(
        "scontrol",
        "JobId=12 JobName=a\n   JobState=FAILED Reason=NonZeroExitCode\n   Requeue=1 ExitCode=4:0\n",
    )
    code, out, _ = machine.slurmgen("wait", "12", *WAY)
    assert code == 4
    assert "why: its script ended with exit code 4\n" in out


def test_a_job_that_was_just_submitted_is_not_gone(machine: Machine) -> None:
    machine.answers("sbatch", "echo 12")
    assert machine.submit()[0] == 0
    code, out, _ = machine.slurmgen("status", "12")
    assert code == 3
    assert out.startswith(
        "job 12 is UNKNOWN: it is new, and no reply of Slurm has it yet; try again in a minute\n"
    )


def test_a_job_of_another_cluster_is_asked_for_there(machine: Machine) -> None:
    machine.answers("squeue", f"echo \"$@\" >> '{machine.bin}/asked'; {UNKNOWN}")
    rest = {"via": "local", "name": "n", "folder": "/f", "output": "o", "submitted": "2020-01-01"}
    for id_, cluster in (("1", "big"), ("2", "small"), ("3", "big")):
        Ledger().add(Record(id=id_, cluster=cluster, site="generic", **rest))
    assert machine.slurmgen("status", "1", "2", "3")[0] == 0
    big, small, *again = (machine.bin / "asked").read_text().splitlines()
    assert again == [big, small] * 2  # that they are gone is believed at the third reply
    (machine.bin / "asked").unlink()
    assert machine.slurmgen("status", "1", "2", "3")[0] == 0
    assert len((machine.bin / "asked").read_text().splitlines()) == 2  # or at the first of a later command
    assert "--clusters=big --jobs=1,3 " in big
    assert "--clusters=small --jobs=2 " in small


MINE = Record(
    id="12", site="generic", via="local", name="a", folder="/f", output="%j", submitted="2020-01-01"
)
FORGOTTEN = "remembered: Slurm has no record of it any more\n"


def row(state: str, id_: str = "12", name: str = "a") -> str:
    return f"{id_}|{state}|None|0:01|1:00|N/A|n1|||||{name}\n"


def forgets(machine: Machine) -> None:
    """From now on no Slurm command knows any job, and each that is asked leaves a trace."""
    machine.answers("squeue", f"touch '{machine.bin}/asked'; {UNKNOWN}")


@pytest.mark.parametrize("words", ["status", "status 12", "wait 12", "cancel 12", "logs -f 12"])
def test_how_a_job_ended_is_known_when_slurm_has_forgotten_it(machine: Machine, words: str) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("FAILED"))
    record = (
        "JobId=12 JobName=a\n   JobState=FAILED Reason=None\n   Requeue=1 ExitCode=4:0\n   RunTime=0:01\n"
    )
    machine.says("scontrol", record)
    machine.slurmgen(*words.split())
    forgets(machine)
    code, out, _ = machine.slurmgen("status", "12")
    assert (code, out.splitlines()[0]) == (0, "job 12 (a) is FAILED after 00:00:01 with exit code 4:0")
    assert "why: its script ended with exit code 4\n" in out
    assert FORGOTTEN in out
    job = json.loads(machine.slurmgen("status", "12", "--json")[1])
    assert (job["state"], job["exit_code"]) == ("FAILED", 4)
    assert job["remembered"] == "Slurm has no record of it any more"
    assert machine.slurmgen("wait", "12")[0] == 4


def test_the_list_asks_no_more_for_what_has_ended_but_its_name_does(machine: Machine) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("COMPLETED"))
    first = machine.slurmgen("status")
    forgets(machine)
    assert machine.slurmgen("status") == first
    assert "COMPLETED" in first[1]
    assert json.loads(machine.slurmgen("status", "--json")[1])["jobs"][0]["remembered"]
    assert not (machine.bin / "asked").exists()
    machine.slurmgen("status", "a")
    assert (machine.bin / "asked").exists()


@pytest.mark.parametrize("state", ["RUNNING", "PREEMPTED", "NODE_FAIL", "REQUEUED", "BOOT_FAIL"])
def test_a_job_that_may_go_on_is_not_remembered(machine: Machine, state: str) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("COMPLETED", "12_1") + row(state, "12_2"))
    assert machine.slurmgen("status", "12")[0] == 0
    forgets(machine)
    assert "job 12 is gone from the records" in machine.slurmgen("status", "12")[1]


def kept(*rows: tuple[str, str]) -> str:
    """What sacct says of tasks and their states."""
    return "".join(f"{id_}|{state}|0:0|0:01|1:00|Unknown|n1||00:01|cpu=1||||a\n" for id_, state in rows)


def test_of_an_array_each_task_is_remembered(machine: Machine) -> None:
    Ledger().add(MINE)
    both = ("12_1", "COMPLETED"), ("12_2", "FAILED")
    machine.says("squeue", row("COMPLETED", "12_1") + row("FAILED", "12_2"))
    machine.says("sacct", kept(*both))
    machine.slurmgen("status")
    machine.says("squeue", row("COMPLETED", "12_1"))  # a part is forgotten
    machine.says("sacct", kept(both[0]))
    head = "job 12 (a) is FAILED, an array of 2: 1 COMPLETED, 1 FAILED\n"
    out = machine.slurmgen("status", "12")[1]
    assert out.startswith(head)
    assert FORGOTTEN not in out
    forgets(machine)
    machine.says("sacct", "")
    assert machine.slurmgen("status", "12")[1].startswith(head)
    assert "is COMPLETED after 00:00:01 on n1" in machine.slurmgen("status", "12_1")[1]
    assert FORGOTTEN in machine.slurmgen("status", "12_1")[1]
    assert "job 12_3 is gone" in machine.slurmgen("status", "12_3")[1]


def test_the_last_tasks_of_an_array_are_not_taken_for_all_where_there_is_no_accounting(
    machine: Machine,
) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("FAILED", "12_1") + row("RUNNING", "12_2"))
    machine.slurmgen("status", "12")
    machine.says("squeue", row("COMPLETED", "12_2"))  # the controller has forgotten the other
    machine.slurmgen("status", "12")
    assert [structs.replace(one, seen="") for one in Ledger().all()] == [MINE]


def test_what_another_slurm_says_of_the_same_id_is_not_remembered(machine: Machine) -> None:
    far = structs.replace(MINE, via="ssh", host="far")
    Ledger().add(far)
    machine.says("squeue", row("COMPLETED"))
    assert "COMPLETED" in machine.slurmgen("status", "12", "--via", "local")[1]
    assert Ledger().all() == (far,)


def test_wait_too_tells_what_was_seen_where_the_site_is_not_reached(machine: Machine) -> None:
    failed = JobState(id="12", name="a", state="FAILED", exit_code="4:0", elapsed="0:01")
    down = structs.replace(MINE, via="ssh", host="user.invalid", final=states_text((failed,)))
    Ledger().add(down)
    code, out, _ = machine.slurmgen("wait", "12")
    assert (code, out.splitlines()[0]) == (4, "job 12 (a) is FAILED after 00:00:01 with exit code 4:0")


def test_a_task_that_ended_does_not_end_its_array(machine: Machine) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("COMPLETED", "12_1"))
    machine.slurmgen("status", "12_1")
    assert Ledger().all() == (MINE,)


def test_a_job_that_came_back_is_asked_for_again(machine: Machine) -> None:
    Ledger().add(MINE)
    for state in ("FAILED", "RUNNING"):
        machine.says("squeue", row(state))
        assert f"is {state}" in machine.slurmgen("status", "12")[1]
    machine.says("squeue", row("TIMEOUT"))
    assert "TIMEOUT" in machine.slurmgen("status")[1]


def test_a_database_that_is_down_hides_no_end_that_was_seen(machine: Machine) -> None:
    Ledger().add(MINE)
    machine.says("squeue", row("COMPLETED"))
    machine.slurmgen("status", "12")
    forgets(machine)
    machine.answers("sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
    code, out, _ = machine.slurmgen("status", "12")
    assert code == 0
    assert out.splitlines()[1] == "  remembered: sacct: Problem talking to the database"


@pytest.mark.parametrize("final", ["", "[]", "nonsense", '[{"id": 12}]'])
def test_an_end_that_cannot_be_read_is_asked_for(machine: Machine, final: str) -> None:
    Ledger().add(structs.replace(MINE, final=final))
    machine.says("squeue", row("COMPLETED"))
    assert "COMPLETED" in machine.slurmgen("status")[1]


def test_a_site_that_is_not_reached_hides_no_end_that_was_seen(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAA\n")
    config = Server(tmp_path, closed_port()).config(tmp_path)
    ended = states_text([JobState(id="12", state="COMPLETED", name="a")])
    far = structs.replace(MINE, final=ended, via="ssh", host="far", ssh_config=config)
    Ledger().add(far)
    code, out, err = machine.slurmgen("status", "12")
    assert (code, err) == (0, "")
    assert out.startswith("job 12 (a) is COMPLETED\n  remembered: not reached: ")
    Ledger().add(structs.replace(far, id="13", final=""))
    code, out, _ = machine.slurmgen("status", "12", "13")
    assert code == 3
    assert "job 12 (a) is COMPLETED\n" in out
    assert "job 13 is UNKNOWN: not reached: " in out


def test_how_a_job_ended_outlives_its_twin(machine: Machine) -> None:
    ended = states_text([JobState(id="12", state="COMPLETED", name="a")])
    Ledger().add(structs.replace(MINE, via="twin", final=ended))
    code, out, _ = machine.slurmgen("status", "12")
    head = "job 12 (a) is COMPLETED\n  remembered: not reached: no twin of generic runs\n"
    assert (code, out) == (
        0,
        f"{head}  site: the twin of generic on this machine\n  submitted: 2020-01-01 00:00:00\n",
    )


def test_of_an_id_that_was_given_twice_the_later_job_has_the_state(machine: Machine) -> None:
    for day, name in enumerate(("earlier", "later"), start=1):
        Ledger().add(structs.replace(MINE, name=name, submitted=f"2020-01-0{day}"))
    machine.says("squeue", row("COMPLETED", name="later"))
    for _ in range(2):
        out = machine.slurmgen("status")[1]
        lines = [line for line in out.splitlines() if " generic " in line]
        assert [line.split()[1:4:2] for line in lines] == [["earlier", "GONE"], ["later", "COMPLETED"]]


def test_the_list_of_jobs_goes_the_way_that_each_went(machine: Machine) -> None:
    """A user of OpenSSH's client, perhaps with a shared connection, may have no other way to log in."""
    (machine.home / "ssh_config").write_text("Host far\n  HostName 127.0.0.1\n")
    went = {"site": "daic", "via": "ssh", "host": "far", "ssh_config": str(machine.home / "ssh_config")}
    own = {"id": "7", "name": "n", "folder": "/f", "output": "%j", "submitted": "2020-01-01T00:00:00+00:00"}
    Ledger().add(Record(**went, **own, ssh_client="openssh"))  # type: ignore[arg-type]
    machine.environ["PATH"] = str(machine.bin)  # where no ssh is
    code, out, _ = machine.slurmgen("status")
    assert code == 3
    assert "not reached: there is no ssh" in out
