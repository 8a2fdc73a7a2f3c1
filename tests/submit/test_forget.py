"""Giving up an unsettled submission: its job is found, or its key is closed so that none can follow."""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.errors import RemoteError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed, Transport, chunks
from slurmgen.submit import exactly_once as there
from slurmgen.submit.exactly_once import Closed, Submission, Submitted, close
from slurmgen.sync.manifest import Sent
from tests.conftest import Run
from tests.scenarios.test_failing_machines import HELD, TIMEOUTS, counted, submission
from tests.scenarios.test_hostile_replies import JOB, Machine
from tests.support.programs import write_programs
from tests.support.sshd import Server
from tests.support.twins import Testbed, eventually


def entry(one: Submission) -> Record:
    return Record(
        id="",
        site="generic",
        via="local",
        name=one.name,
        folder=one.folder,
        output=one.output,
        submitted="2026-01-01",
        key=one.key,
        state="pending",
        snapshot=one.content.hash,
    )


def submit(far: Transport, one: Submission) -> Submitted:
    return there.submit(far, one, Sent(Path(os.environ["XDG_CACHE_HOME"], "sent")), TIMEOUTS)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text("print(1)\n")
    return root


def test_a_submission_that_never_arrived_is_closed_and_cannot_become_a_job(
    cluster: Transport, project: Path
) -> None:
    one = submission(project, "closed", f"{project.name}-never")
    assert close(cluster, entry(one), TIMEOUTS) is None
    assert close(cluster, entry(one), TIMEOUTS) is None
    with pytest.raises(Closed):
        submit(cluster, one)


def test_closing_finds_the_job_of_a_submission_and_does_not_end_it(
    cluster: Transport, project: Path, testbed: Testbed
) -> None:
    one = submission(project, "closed", f"found-{project.parent.name}")
    done = submit(cluster, one)
    found = close(cluster, entry(one), TIMEOUTS)
    assert found
    assert (found.job, found.folder, found.snapshot) == (done.job, done.folder, one.content.hash)
    assert counted(testbed)[one.key] == 1
    testbed.run("scancel", str(done.job))


class Held(LocalTransport):
    """This machine; the last bytes of what is sent to it wait for an event."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__(environment)
        self.arrived, self.goes_on = threading.Event(), threading.Event()

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        return super().run(argv, input=self._held(b"".join(chunks(input))), timeout=timeout)

    def _held(self, data: bytes) -> Iterator[bytes]:
        yield data[:-1]
        self.arrived.set()
        self.goes_on.wait(60)
        yield data[-1:]


def test_a_submission_whose_key_is_closed_while_it_is_sent_becomes_no_job(
    project: Path, testbed: Testbed
) -> None:
    one = submission(project, "held", f"held-{project.parent.name}")
    held = Held(testbed.twin.environ())
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(submit, held, one)
        assert held.arrived.wait(60)
        eventually(lambda: list(Path.home().glob(f"held/p/staging/hard-{one.key}*")))
        assert close(LocalTransport(testbed.twin.environ()), entry(one), TIMEOUTS) is None
        held.goes_on.set()
        with pytest.raises(Closed):
            going.result(300)
    assert counted(testbed)[one.key] == 0


def test_closing_and_submitting_at_the_same_time_agree_on_the_outcome(
    project: Path, testbed: Testbed
) -> None:
    for number in range(8):
        one = submission(project, "race", f"race-{project.parent.name}-{number}")
        far = LocalTransport(testbed.twin.environ())
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(submit, far, one)
            time.sleep(number * 0.05)
            found = close(far, entry(one), TIMEOUTS)
            error = going.exception(300)
        assert isinstance(error, Closed) == (found is None)
        assert counted(testbed)[one.key] == (found is not None)
        if found:
            testbed.run("scancel", str(found.job))


def test_without_a_reply_of_slurm_closing_fails_and_changes_nothing(
    project: Path, testbed: Testbed, tmp_path: Path
) -> None:
    one = submission(project, "silent", f"silent-{project.parent.name}", HELD)
    down = "echo 'Unable to contact slurm controller' >&2; exit 1"
    broken = write_programs(tmp_path / "bin", {"squeue": down, "sacct": down, "sbatch": "exit 1"})
    environ = {**testbed.twin.environ(), "PATH": f"{broken}:{os.environ['PATH']}"}
    with pytest.raises(RemoteError):
        submit(LocalTransport(environ), one)
    with pytest.raises(RemoteError, match="whether there is a job is not known"):
        close(LocalTransport(environ), entry(one), TIMEOUTS)
    assert close(LocalTransport(testbed.twin.environ()), entry(one), TIMEOUTS) is None


DOWN = "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller' >&2; exit 1"
SILENT = "echo 'squeue: error: Unable to contact' >&2; exit 1"


ENV = ("--env", "TOKEN=hunter2", "--env=OTHER=hunter3", "--not-secret", "TOKEN")


@pytest.fixture
def machine(tmp_path: Path, slurmgen: Run) -> Machine:
    """A machine on which a submission is unsettled."""
    made = Machine(tmp_path, slurmgen)
    made.answers("sbatch", DOWN)
    made.answers("squeue", SILENT)
    assert made.submit(*ENV, "--", "--lr", "a b")[0] == 3
    return made


def unsettled() -> Record:
    (found,) = Ledger().all()
    assert found.pending
    return found


def test_status_shows_the_command_of_an_unsettled_submission_and_a_hint(machine: Machine) -> None:
    code, out, _ = machine.slurmgen("status")
    assert code == 0
    shown = " ".join(out.split())
    words = "--env TOKEN=... --env=OTHER=... --not-secret TOKEN -- --lr 'a b'"
    assert f"{machine.project}$ slurmgen submit {' '.join(JOB)} {words}" in shown
    assert f"`slurmgen forget {unsettled().key}`" in shown
    assert "hunter" not in out
    assert b"hunter2" not in Ledger().path.read_bytes()


def test_forget_keeps_the_entry_if_the_outcome_is_not_certain(machine: Machine) -> None:
    code, out, err = machine.slurmgen("forget", "train")
    assert (code, out) == (3, "")
    assert "whether there is a job is not known" in err
    assert "--force removes the entry from your records, although a job may exist" in err
    unsettled()


def test_forget_with_force_removes_the_entry_and_warns(machine: Machine) -> None:
    code, _, err = machine.slurmgen("forget", unsettled().key, "--force")
    assert code == 0
    assert "warning: whether there is a job is not known" in err
    assert "a job may exist" in err
    assert Ledger().all() == ()


def test_forget_removes_an_entry_without_a_job_so_that_the_next_submission_is_new(machine: Machine) -> None:
    machine.answers("squeue", "exit 0")
    key = unsettled().key
    code, out, err = machine.slurmgen("forget", "train")
    assert (code, out) == (0, f"submission {key} (train) has no job and can have none: removed\n"), err
    assert Ledger().all() == ()
    machine.answers("sbatch", "echo 12")
    assert machine.submit()[:2] == (0, "12\n")


def test_forget_does_not_believe_that_a_starting_controller_lists_nothing(machine: Machine) -> None:
    key = unsettled().key
    (intent,) = machine.home.glob("slurmgen/*/submissions/*/intent.[1]")  # a link to no file
    host, pid, began = str(intent.readlink()).split()
    intent.unlink()
    intent.symlink_to(f"{host} {pid} {int(began) - 3600}")
    machine.answers("squeue", f"[ -e ~/asked ] && echo '77|slurmgen:{key}|/f' || touch ~/asked")
    _, out, err = machine.slurmgen("forget", "train")
    assert out.startswith(f"submission {key} (train) became job 77: recorded\n"), err


@pytest.mark.parametrize("cancels", [False, True])
def test_forget_records_the_job_and_cancels_it_only_with_cancel(machine: Machine, cancels: bool) -> None:
    key = unsettled().key
    row = "77|RUNNING|None|1:00|5:00|N/A|n1|||||train"
    machine.answers("squeue", f"case \"$*\" in *%F*) echo '77|slurmgen:{key}|/f' ;; *) echo '{row}' ;; esac")
    machine.answers("scancel", 'echo "$@" >>~/cancelled')
    code, out, err = machine.slurmgen("forget", "train", *(["--cancel"] if cancels else []))
    assert code == 0, err
    assert out.startswith(f"submission {key} (train) became job 77: recorded\n")
    assert [(one.id, one.pending) for one in Ledger().all()] == [("77", False)]
    assert (machine.home / "cancelled").exists() == cancels


def test_forget_changes_nothing_without_force_if_the_site_is_not_reached(machine: Machine) -> None:
    way = ["--via", "ssh", "--host", "stranger@127.0.0.1"]
    code, out, err = machine.slurmgen("forget", "train", *way)
    assert (code, out) == (3, "")
    assert "Nothing was changed." in err
    key = unsettled().key
    assert machine.slurmgen("forget", "train", *way, "--force")[0] == 0
    assert key not in machine.slurmgen("status")[1]


def test_forget_needs_a_key_if_several_submissions_have_the_name(machine: Machine) -> None:
    first = unsettled()
    Ledger().add(structs.replace(first, key="another"))
    code, out, err = machine.slurmgen("forget", "train")
    assert (code, out) == (2, "")
    assert f"{first.key}, another" in err
    assert machine.slurmgen("forget", "nosuch")[0] == 2


def test_forget_cancels_a_job_of_a_real_slurm_over_ssh(
    slurmgen: Run, project: Path, login_node: Server, testbed: Testbed, tmp_path: Path
) -> None:
    way = ["--site", "generic", "--host", "far", "--ssh-config", login_node.config(tmp_path)]
    job = ["--framework", "python", "--script", "train.py", "--time", "00:05:00", "--sbatch", "hold"]
    reply = slurmgen("submit", *way, *job, cwd=project)
    assert reply.returncode == 0, reply.stderr
    (done,) = Ledger().all()
    Ledger().settle(structs.replace(done, id="", state="pending"))
    reply = slurmgen("forget", "train", "--cancel", cwd=project)
    assert reply.returncode == 0, reply.stderr
    assert f"became job {done.id}: recorded" in reply.stdout
    assert testbed.wait(done.id) == "CANCELLED"
    assert [one.id for one in Ledger().all()] == [done.id]
