"""Submitting: the remote host makes one job for each idempotency key, however often the key is sent."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import (
    CommandFailed,
    ConnectionFailed,
    Interrupted,
    TransferFailed,
    Unresolved,
)
from slurmgen.jobs import remote_scripts
from slurmgen.jobs.secret_values import SecretValues
from slurmgen.jobs.slurm_client import call, refusal
from slurmgen.jobs.submission_errors import Closed, Refused, SnapshotGone, error_of
from slurmgen.remote.transport import Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import COMMENT
from slurmgen.sync.archive import pack
from slurmgen.sync.delta import Parcel, difference, expected
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Manifest, Sent
from slurmgen.sync.remote_paths import plain, rooted
from slurmgen.text import visible

SLOWEST_LINK = 50_000
"Bytes a second. Below this speed, sending the project times out."
_AGAIN = "The same command again finds the job, or submits it if there is none."
_ATTEMPTS = 5
"How often the key is sent, while the remote host lacks a snapshot or is too slow to call sbatch."
_MAX_NAME = 100
_MAX_TEXT = 4096
"Characters of a path."
_SECONDS = re.compile(r"[0-9]{1,11}")


Count = Callable[[int, int], None]
"Called with the bytes of each part, and with the total."


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds."""

    sbatch: int = 120
    "For sbatch; a busy controller can take a minute."
    grace: int = 5
    "Until squeue must show a job that an earlier sbatch submitted."
    reply: float = 420.0
    "For the whole submission: another terminal's sbatch, then ours, and a query of Slurm after each."
    login: int = 6 * 3600
    "For the lines of `before_login`, and as long for those of another submission before them."


TIMEOUTS = Timeouts()


class Submission(Struct, frozen=True, kw_only=True):
    """What is sent for one job."""

    name: str
    "Name of the job."
    script: str
    "Text of the batch script."
    files: Snapshot
    content: Manifest
    "Of these files."
    parent: str
    "Folder of this project; relative to the remote home."
    key: str
    "The idempotency key: whatever happens, it has one job at most."
    output: str
    "Slurm's pattern for the name of the log, such as %x-%j.out."
    comment: str = ""
    "The user's own comment for the job."
    clusters: str = ""
    "The value of --clusters in the script."
    record: str = ""
    "The entry of the ledger, kept on the remote host for the user to read."
    login_script: str = ""
    "What runs on the login node first; empty for nothing."
    login_hash: str = ""
    "The name of what runs there: once for each."
    secrets: SecretValues = SecretValues()
    "Sent with the job, for a file that the batch script reads."
    is_stored: bool = False
    "Whether only the remote host has the content, so that nothing can be sent."
    file: str = ""
    "The path of the script in the run folder, if it is one of the project's own files."

    sbatch_options: tuple[str, ...] = ()
    "Options that override the header of the script, each as --NAME=VALUE."
    dependency: str = ""
    "The value of --dependency; the script does not have it."

    @property
    def run(self) -> str:
        """The name of its run folder."""
        return f"{plain(self.name)[:_MAX_NAME] or 'job'}-{self.key}"

    @property
    def folder(self) -> str:
        """The folder the job runs in."""
        return f"{self.parent}/runs/{self.run}"

    @property
    def script_name(self) -> str:
        """The path of the script in the folder."""
        return self.file or script_name(self.name)

    @property
    def log_dir(self) -> str:
        """The folder the log is written to; Slurm does not make it."""
        return rooted(str(PurePosixPath(self.output).parent))

    @property
    def log_prefix(self) -> str:
        """See `log_prefix`."""
        return log_prefix(self.output, self.name)


def script_name(name: str) -> str:
    """The name of the batch script in the run folder of a job."""
    return f"{plain(name)[:_MAX_NAME]}.sbatch"


def log_prefix(output: str, name: str) -> str:
    """The path of a job's log up to its id; empty if jobs of other folders may write there too."""
    before, percent, after = output.replace("%x", name).partition("%")
    return before if percent and after[:1] in {"j", "A"} and not before.startswith("/") else ""


class Submitted(Struct, frozen=True):
    """A job that Slurm took, and the folder it runs in."""

    job: JobId
    folder: str
    earlier: bool = False
    "Whether an earlier submission with this key made it."
    seconds: int = 0
    "When, in seconds since 1970 by the clock of the remote host."
    snapshot: str = ""
    "The hash of the snapshot that it runs."
    warning: str = ""
    "Why another user could change what it runs; empty if none could."


def submit(
    transport: Transport,
    submission: Submission,
    sent: Sent,
    timeouts: Timeouts = TIMEOUTS,
    count: Count | None = None,
    parcel: Parcel | None = None,
) -> Submitted:
    """Make sure that this key has one job: send what the remote host lacks, then submit.

    Args:
        transport: to the remote host.
        submission: the job.
        sent: the manifests of earlier submissions.
        timeouts: how long to wait.
        count: is called for each part of the project that is sent.
        parcel: the result of `expected`, if it is known already.

    Raises:
        TransferFailed: the project could not be sent, and there is no job.
        SnapshotGone: the submission is of a stored snapshot, which is gone, and there is no job.
        LoginFailed: a line of `before_login` failed, and there is no job.
        Refused, Closed: Slurm refused the job, now or before, and there is no job.
        Unresolved: there may be a job.
        Interrupted: ^C came before the reply, so there may be a job.
    """
    try:
        parcel = parcel or expected(submission.content, sent)
        return _submit(transport, submission, sent, timeouts, count or _ignore, parcel)
    except (Refused, Closed, TransferFailed):
        raise
    except (CommandFailed, ConnectionFailed) as error:
        raise Unresolved(f"whether there is a job is not known: {error.fact}", _AGAIN) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted before it was known whether there is a job", _AGAIN) from None


def _submit(
    transport: Transport,
    submission: Submission,
    sent: Sent,
    timeouts: Timeouts,
    count: Count,
    parcel: Parcel,
) -> Submitted:
    has_sent = False
    for _ in range(_ATTEMPTS):
        has_sent |= parcel.base != "?"
        total = sum(submission.content.entries[name].size for name in parcel.names)
        data = _counted(pack(submission.files.files, submission.content, parcel.names), total, count)
        outcome, *texts = _run(transport, submission, parcel, data, timeouts)
        if outcome == "late":
            parcel = Parcel("?")  # the remote host has the content now
            continue
        if outcome != "wanted":
            break
        if submission.is_stored:
            raise SnapshotGone.of(transport.where, submission.content.hash, submission.parent)
        parcel = difference(submission.content, sent, texts)  # the texts are the snapshots on the remote host
    if outcome != "submitted":
        raise error_of(outcome, transport.where, submission, texts[0])
    if has_sent:
        sent.add(submission.content)
    return submitted(transport, texts)


def _run(
    transport: Transport, submission: Submission, parcel: Parcel, data: Iterable[bytes], timeouts: Timeouts
) -> list[str]:
    names = b"".join(name.encode(errors="surrogateescape") + b"\0" for name in parcel.gone)
    secrets = submission.secrets.lines()
    args = [
        *(submission.parent, submission.run, submission.key, submission.content.hash),
        *(parcel.base, str(len(names))),
        *(submission.script_name, submission.script, submission.record),
        *(submission.log_dir, submission.log_prefix),
        *(f"{submission.comment} {COMMENT}{submission.key}".strip(), submission.clusters),
        *(str(timeouts.sbatch), str(timeouts.grace)),
        *(submission.login_hash, submission.login_script, str(timeouts.login)),
        submission.dependency,
        str(len(secrets)),
        "\n".join(submission.sbatch_options),
    ]
    size = 0 if parcel.base == "?" else submission.content.size
    login = 2 * timeouts.login if submission.login_script else 0
    timeout = timeouts.reply + login + size / SLOWEST_LINK
    return (
        remote_scripts.run(transport, "submit", args, chain([secrets, names], data), timeout=timeout)
        + [""] * 5
    )


def _counted(parts: Iterable[bytes], total: int, count: Count) -> Iterator[bytes]:
    for part in parts:
        yield part
        count(len(part), total)


def _ignore(_part: int, _total: int) -> None:
    pass


def submitted(transport: Transport, texts: list[str]) -> Submitted:
    """The job in a reply.

    Raises:
        CommandFailed: the reply has no job.
    """
    number, folder, when, seconds, snapshot, exposed, *_ = texts
    job = replies.job_id(number)
    if job is None or not _SECONDS.fullmatch(seconds):
        raise CommandFailed(f"{transport.where} replied without a job id: {number!r}")
    if not folder.startswith("/") or max(map(len, texts)) > _MAX_TEXT:
        raise CommandFailed(f"{transport.where} replied without the folder of job {job}: {folder!r}")
    return Submitted(job, folder, when == "earlier", int(seconds), snapshot, exposed)


def try_out(transport: Transport, script: str, options: Sequence[str] = ()) -> str:
    """Check with `sbatch --test-only` whether Slurm would accept a script; its reply. No job is made.

    Raises:
        CommandFailed: Slurm would refuse it.
    """
    argv = [*commands.sbatch_test(), *options]
    completed = call(
        transport, argv, data=script.encode(errors="surrogateescape"), timeout=float(TIMEOUTS.sbatch)
    )
    if completed.returncode:
        raise refusal(argv, completed)
    return visible(replies.trial(completed.err))
