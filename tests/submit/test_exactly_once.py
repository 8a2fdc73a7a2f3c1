"""Submitting to a real Slurm, on this machine and over SSH, with a login profile that prints text."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmgen.errors import (
    CommandFailed,
    ConnectionFailed,
    Interrupted,
    RequestError,
    TransferFailed,
    Unresolved,
)
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed, TimedOut, Transport
from slurmgen.slurm.commands import JobId
from slurmgen.status import slurm
from slurmgen.status.failure import LOG_END
from slurmgen.status.job import log_path
from slurmgen.status.logs import LogFile, Shown, ends, follow, look, read
from slurmgen.status.prune import kept
from slurmgen.status.report_text import describe
from slurmgen.status.slurm import call, cancel, ended, job_states, outcome
from slurmgen.submit import exactly_once
from slurmgen.submit.exactly_once import Closed, Refused, Submission, Submitted, Timeouts, try_out
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import Sent, manifest, parent_folder
from tests.support.sshd import Server
from tests.support.twins import Testbed, eventually, settled

HEAD = "#!/bin/bash\n#SBATCH --job-name=example\n#SBATCH --output=logs/%x-%j.out\n"
SHORT = Timeouts(sbatch=30, grace=1)
HOSTILE = ['-it\'s "$(touch pwned)"', "`touch pwned`;touch pwned &  naïve ☃ * $HOME a:b"]


def submission(folder: Path, body: str, *, remote_dir: str = "sent", key: str = "") -> Submission:
    folder.mkdir(exist_ok=True)
    (folder / "data file").write_text("42\n")
    files = snapshot(folder)
    return Submission(
        name="example",
        script=f"{HEAD}{body}",
        files=files,
        content=manifest(files),
        parent=parent_folder(remote_dir, folder.name),
        key=key or f"{time.monotonic_ns()}",
        output="logs/%x-%j.out",
    )


def submit(transport: Transport, one: Submission, timeouts: Timeouts = SHORT) -> Submitted:
    return exactly_once.submit(transport, one, Sent(Path(os.environ["XDG_CACHE_HOME"], "sent")), timeouts)


def log(transport: Transport, done: Submitted) -> str:
    path = log_path(done.folder, "logs/%x-%j.out", "example", str(done.job))
    parts: list[bytes] = []
    deadline = time.monotonic() + 120

    def sleep(_: float) -> None:
        assert time.monotonic() < deadline, f"job {done.job} has not ended"
        time.sleep(0.2)

    states = follow(transport, done.job, path, Shown(parts.append), sleep)
    return f"{outcome(states)}\n{b''.join(parts).decode()}"


def test_a_job_runs_among_its_files_with_a_clean_environment(
    cluster: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = "$SLURM_JOB_NAME $SLURM_JOB_PARTITION ${FROM_PROFILE:-} ${SBATCH_PARTITION:-clean}"
    body = f'cat "data file"\necho "{variables}"\n'
    done = submit(cluster, submission(tmp_path / "p", body))
    state, number, names = log(cluster, done).splitlines()
    assert (state, number) == ("COMPLETED", "42")
    assert names.split()[:2] == ["example", "main"]
    assert names.endswith(" clean")
    assert cluster.shell[1] == "-c" or "yes" in names


def test_only_its_owner_can_read_the_run_folder_and_it_has_the_script(
    cluster: Transport, tmp_path: Path, login_node: Server
) -> None:
    done = submit(cluster, submission(tmp_path / "p", "true\n"))
    folder = Path(done.folder)
    assert folder.is_relative_to(login_node.home / "sent/p")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "example.sbatch").read_text() == f"{HEAD}true\n"
    assert (folder / "logs").is_dir()


@pytest.mark.parametrize("remote_dir", HOSTILE)
def test_no_part_of_a_folder_name_is_run(
    cluster: Transport, tmp_path: Path, login_node: Server, remote_dir: str
) -> None:
    done = submit(cluster, submission(tmp_path / "p", "pwd\n", remote_dir=remote_dir))
    assert log(cluster, done) == f"COMPLETED\n{done.folder}\n"
    assert Path(done.folder).is_relative_to(login_node.home / remote_dir / "p")
    settled(login_node.home / remote_dir / "p")
    assert not list(login_node.home.rglob("pwned"))


def test_the_same_key_gives_the_same_job_with_its_first_files(cluster: Transport, tmp_path: Path) -> None:
    sent = submission(tmp_path / "p", "cat 'data file'\n")
    first = submit(cluster, sent)
    (tmp_path / "p/more").write_text("later")
    later = submission(tmp_path / "p", "cat 'data file'\n", key=sent.key)
    second = submit(cluster, later)
    assert (first.earlier, second.earlier) == (False, True)
    assert (second.job, second.folder, second.snapshot) == (first.job, first.folder, sent.content.hash)
    assert abs(second.seconds - time.time()) < 300
    assert not (Path(first.folder) / "more").exists()
    assert log(cluster, second) == "COMPLETED\n42\n"


def test_an_unchanged_project_has_one_snapshot_and_each_job_its_own_copy(
    cluster: Transport, tmp_path: Path
) -> None:
    one, two = (submit(cluster, submission(tmp_path / "p", "echo >>'data file'\n")) for _ in range(2))
    assert log(cluster, one) == log(cluster, two) == "COMPLETED\n"
    parent = settled(Path(one.folder).parent.parent)
    assert (parent / "snapshots" / one.snapshot / "data file").read_text() == "42\n"
    assert [(Path(each.folder) / "data file").read_text() for each in (one, two)] == ["42\n\n"] * 2
    left = {path.name.partition(".")[0] for path in parent.glob("staging/*")}
    assert left <= {"spare"}  # a copy for the next run


def test_a_folder_that_cannot_be_made_is_an_error(cluster: Transport, tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match=r"/proc/nowhere.*--remote-dir"):
        submit(cluster, submission(tmp_path / "p", "true\n", remote_dir="/proc/nowhere"))


def test_a_refusal_quotes_slurm(cluster: Transport, tmp_path: Path) -> None:
    sent = submission(tmp_path / "p", "#SBATCH --partition=nope\ntrue\n")
    for _ in range(2):
        with pytest.raises(
            (Refused, Closed), match=r"invalid partition specified: nope.*--partition|refused"
        ):
            submit(cluster, sent)


def test_a_trial_makes_no_job(cluster: Transport, testbed: Testbed) -> None:
    def jobs() -> set[str]:
        return set(testbed.run("squeue", "--noheader", "--states=all", "--format=%F").split())

    before = jobs()
    assert try_out(cluster, f"{HEAD}true\n").startswith("it would start at ")
    assert jobs() <= before  # Slurm may have forgotten some meanwhile


def test_a_trial_that_fails_reports_the_reason(cluster: Transport) -> None:
    with pytest.raises(CommandFailed, match="node configuration is not available"):
        try_out(cluster, f"{HEAD}#SBATCH --gres=gpu:99\ntrue\n")


def test_a_job_is_followed_from_pending_to_its_last_line(cluster: Transport, tmp_path: Path) -> None:
    done = submit(cluster, submission(tmp_path / "p", "echo one\nsleep 1\necho two\n"))
    assert log(cluster, done) == "COMPLETED\none\ntwo\n"


def test_a_job_that_fails_is_reported_with_its_exit_code(cluster: Transport, tmp_path: Path) -> None:
    done = submit(cluster, submission(tmp_path / "p", "echo no\nexit 3\n"))
    assert log(cluster, done) == "FAILED\nno\n"
    (line,) = describe(job_states(cluster, done.job), done.job, "here")
    assert "is FAILED" in line
    assert "with exit code 3:0" in line


def test_a_cancelled_job_is_cancelled(cluster: Transport, tmp_path: Path) -> None:
    done = submit(cluster, submission(tmp_path / "p", "sleep 100\n"))
    cancel(cluster, done.job)
    assert log(cluster, done).startswith("CANCELLED\n")


def test_an_array_is_reported_task_by_task(cluster: Transport, tmp_path: Path) -> None:
    done = submit(
        cluster, submission(tmp_path / "p", "#SBATCH --array=1-2\nexit $((SLURM_ARRAY_TASK_ID - 1))\n")
    )
    eventually(lambda: ended(job_states(cluster, done.job)))
    states = job_states(cluster, done.job)
    assert sorted((one.id, one.state) for one in states) == [
        (f"{done.job}_1", "COMPLETED"),
        (f"{done.job}_2", "FAILED"),
    ]
    assert outcome(states) == "FAILED"


def test_a_job_that_slurm_does_not_know_is_gone(cluster: Transport) -> None:
    states = job_states(cluster, JobId("999999"))
    assert (states, outcome(states), ended(states)) == ((), "GONE", True)
    assert "gone from the records" in describe(states, JobId("999999"), "here")[0]


def test_a_missing_log_is_not_an_error(cluster: Transport) -> None:
    assert list(read(cluster, "/no/such/log")) == []


class FakeHost:
    """A host with the given replies; every Slurm command without one fails."""

    where = "remote"
    shell = ("bash", "-lc")

    def __init__(self, **replies: Completed | Exception) -> None:
        self.replies = replies

    def run(self, argv: list[str], **_: object) -> Completed:
        name = argv[4] if argv[:2] == ["bash", "-lc"] and argv[4] != "bash" else "submit"
        reply = self.replies.get(name, Completed(1, b"", f"{name}: error: broken".encode()))
        if isinstance(reply, Exception):
            raise reply
        return reply


def reply(*texts: str) -> Completed:
    return Completed(0, b"hello\n" + "\0".join(["", "slurmgen answers", *texts, ""]).encode())


@pytest.mark.parametrize(
    "answer",
    [
        TimedOut("no answer"),
        ConnectionFailed("it broke"),
        Completed(1, b"", b"sh: killed\n"),
        reply("submitted", "no id", "/f", "new", "1", "h"),
        reply("submitted", "\u0661\u0662", "/f", "new", "1", "h"),
        reply("submitted", "1" * 19, "/f", "new", "1", "h"),
        reply("submitted", "12", "f", "new", "1", "h"),
        reply("submitted", "12", "/f", "new", "1" * 12, "h"),
        reply("submitted", "12", "/f", "new", "1", "h" * 4097),
        reply("unknown", "Slurm says nothing"),
        reply("what?"),
        Completed(0, b"\0slurmgen answers\0submitted\00012"),
    ],
)
def test_an_invalid_reply_is_not_a_refusal(tmp_path: Path, answer: Completed | Exception) -> None:
    with pytest.raises(Unresolved, match=r"is not known: .*\. The same command again finds the job"):
        submit(FakeHost(submit=answer), submission(tmp_path / "p", ""))  # type: ignore[arg-type]


def test_the_other_cluster_of_an_id_is_kept(tmp_path: Path) -> None:
    host = FakeHost(submit=reply("submitted", "5;big", "/remote/folder", "new", "7", "h"))
    done = submit(host, submission(tmp_path / "p", ""))  # type: ignore[arg-type]
    assert done == Submitted(JobId("5", "big"), "/remote/folder", False, 7, "h")


def test_a_controller_that_is_down_does_not_make_a_job_gone() -> None:
    down = Completed(1, b"", b"squeue: error: Unable to contact slurm controller (connect failure)\n")
    with pytest.raises(CommandFailed, match="Unable to contact"):
        job_states(FakeHost(squeue=down), JobId("5"))  # type: ignore[arg-type]


def test_accounting_is_queried_for_a_job_that_the_controller_forgot() -> None:
    unknown = Completed(1, b"", b"slurm_load_jobs error: Invalid job id specified\n")
    host = FakeHost(
        squeue=unknown,
        scontrol=unknown,
        sacct=Completed(0, b"5|TIMEOUT|0:0|01:00|01:00|Unknown|n1||00:00|||||a\n"),
    )
    assert outcome(job_states(host, JobId("5"))) == "TIMEOUT"  # type: ignore[arg-type]


def test_a_cluster_without_sacct_forgets_a_job() -> None:
    unknown = Completed(1, b"", b"slurm_load_jobs error: Invalid job id specified\n")
    host = FakeHost(squeue=unknown, scontrol=unknown, sacct=Completed(127, b"", b"bash: sacct: not found"))
    assert job_states(host, JobId("5")) == ()  # type: ignore[arg-type]


def test_a_machine_without_slurm_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="there is no sbatch on remote"):
        call(FakeHost(sbatch=Completed(127)), ["sbatch"])  # type: ignore[arg-type]


def test_a_real_machine_without_slurm_is_an_error(either: Transport) -> None:
    with pytest.raises(CommandFailed, match="there is no no-such-program"):
        call(either, ["no-such-program"])


@pytest.mark.parametrize(
    ("remote_dir", "parent"),
    [
        ("slurmgen", "./slurmgen/p"),
        ("~/a", "./a/p"),
        ("/scratch/me/", "/scratch/me/p"),
        ("-x", "./-x/p"),
        ("/", "/p"),
    ],
)
def test_a_remote_folder_is_relative_to_the_home(remote_dir: str, parent: str) -> None:
    assert parent_folder(remote_dir, "p") == parent


@pytest.mark.parametrize("remote_dir", ["50%", "a\\b", "a\nb", "a\0b"])
def test_a_folder_that_slurm_would_misread_is_refused(remote_dir: str) -> None:
    with pytest.raises(RequestError, match="--remote-dir"):
        parent_folder(remote_dir, "p")


@pytest.mark.parametrize(
    ("project", "name"), [("..", "project"), ("a b", "a_b"), ("-x", "x"), ("", "project"), ("é", "_")]
)
def test_a_project_folder_has_a_plain_name(project: str, name: str) -> None:
    assert parent_folder("r", project) == f"./r/{name}"


@pytest.mark.parametrize(
    ("output", "job", "path"),
    [
        ("%x-%j.out", "12", "/f%j/n-12.out"),
        ("logs/%x-%A_%a.out", "12_3", "/f%j/logs/n-12_3.out"),
        ("/abs/%j", "12", "/abs/12"),
        ("%%j-%u", "12", "/f%j/%j-%u"),
    ],
)
def test_a_log_is_found_from_its_pattern(output: str, job: str, path: str) -> None:
    assert log_path("/f%j", output, "n", job) == path


@pytest.mark.parametrize("output", ["%A_%a", "%A_%4a"])
def test_an_array_has_more_than_one_log(output: str) -> None:
    with pytest.raises(CommandFailed, match="each task has a log"):
        log_path("/f", output, "n", "12")


def test_every_hint_has_the_text_that_it_is_for() -> None:
    assert all(words and hint.endswith(".") for words, hint in slurm.HINTS.items())


class Interrupting(LocalTransport):
    """This machine, and a user who presses ^C before the reply."""

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        raise KeyboardInterrupt


def test_an_interrupted_submission_reports_that_there_may_be_a_job(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="The same command again finds the job") as caught:
        submit(Interrupting(), submission(tmp_path / "p", "true\n", remote_dir=str(tmp_path / "sent")))
    assert caught.value.exit_code == 130


@pytest.mark.parametrize(
    "row",
    [
        ("run", "p", "n", "9" * 4000, "1", "free", ""),
        ("run", "p", "n", "1", "9" * 4000, "free", ""),
        ("run", "p", "n", "-1", "1", "free", ""),
        ("run", "p", "n", "\u0661", "1", "free", ""),
        ("run", "p", "n", "1", "", "free", ""),
        ("what", "p", "n", "1", "1", "free", ""),
        ("run", "p", "n", "1", "1", "what", ""),
        ("run", "p"),
    ],
)
def test_an_invalid_list_of_snapshots_is_an_error(row: tuple[str, ...]) -> None:
    with pytest.raises(CommandFailed, match="the list from remote cannot be read"):
        kept(FakeHost(submit=reply("", *row)), "/f")  # type: ignore[arg-type]
    assert kept(FakeHost(submit=reply("", "run", "p", "n", "2", "1", "free", "")), "/f")[1][0].size == 2048  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["9" * 5000, "\u0661", "-1", "1 2"])
def test_a_log_whose_size_is_not_a_number_does_not_exist(size: str) -> None:
    assert look(FakeHost(submit=Completed(0, f"{size}\nhead".encode())), "/log") == LogFile("/log")  # type: ignore[arg-type]


def test_the_ends_of_logs_have_a_limited_length() -> None:
    ends_sent = Completed(0, b"a" * 10**6 + b"\0b\0c\0d\0")
    one, two = ends(FakeHost(submit=ends_sent), ["/1", "/2"])  # type: ignore[arg-type]
    assert (len(one.text), two.text) == (LOG_END, "b")
