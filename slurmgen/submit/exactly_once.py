"""Send one submission to a cluster so that at most one job exists, and say what happened."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, structs

from slurmgen import remote_scripts
from slurmgen.errors import (
    CommandFailed,
    ConnectionFailed,
    Interrupted,
    RemoteError,
    TransferFailed,
    Unresolved,
)
from slurmgen.ledger.ledger import Record
from slurmgen.remote.transport import Completed, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import COMMENT
from slurmgen.status.slurm import NO_SLURM, call, hint_for, refusal
from slurmgen.submit.secrets import SecretValues
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import (
    Manifest,
    Parcel,
    Sent,
    difference,
    expected,
    pack,
    rooted,
)
from slurmgen.text import MAX_NAME, plain, script_name, visible

SLOWEST_LINK = 50_000
"Bytes a second. Below this speed, sending the project times out."
_AGAIN = "The same command again finds the job, or submits it if there is none."
_ATTEMPTS = 5
"How often the key is sent, while the remote host lacks a snapshot or is too slow to call sbatch."

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
        return f"{plain(self.name)[:MAX_NAME] or 'job'}-{self.key}"

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

    def settled(self, entry: Record, **changes: Any) -> Record:
        """The entry of the ledger with this job, and with changes."""
        return structs.replace(
            entry,
            id=self.job.number,
            cluster=self.job.cluster,
            folder=self.folder,
            snapshot=self.snapshot,
            state="submitted",
            **changes,
        )


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
    """Count the content of the files: tar adds headers and padding, which would exceed the total."""
    sent = 0
    for part in parts:
        yield part
        of_content = min(len(part), total - sent)
        sent += of_content
        count(of_content, total)


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


def close(transport: Transport, record: Record, timeouts: Timeouts = TIMEOUTS) -> Submitted | None:
    """The job of a submission; None if there is none, and it is certain that there never will be.

    Raises:
        Unresolved: neither is certain; nothing was changed.
    """
    try:
        args = _args(record, timeouts)
        outcome, *texts = remote_scripts.run(transport, "close", args, timeout=timeouts.reply) + [""] * 5
        if outcome == "submitted":
            return submitted(transport, texts)
    except (CommandFailed, ConnectionFailed) as error:
        raise Unresolved(f"whether there is a job is not known: {error.fact}", error.hint) from error
    if outcome != "closed":
        raise Unresolved(
            f"whether there is a job is not known: {' '.join(texts[0].split())}", "Try again later."
        )
    return None


def _args(record: Record, timeouts: Timeouts) -> list[str]:
    """The arguments of submit.sh, of which closing needs no content."""
    folder = PurePosixPath(record.folder)
    parent = record.folder.removesuffix(f"/runs/{folder.name}")
    return [
        *(parent, folder.name, record.key, record.snapshot, "-", "0"),
        *("", "", ""),
        *(str(PurePosixPath(record.output).parent), log_prefix(record.output, record.name)),
        *("", record.cluster),
        *(str(timeouts.sbatch), str(timeouts.grace)),
    ]


_CAUSES = re.compile("No space|quota|too large|Read-only|Permission", re.IGNORECASE)
"The causes, among the many lines that tar prints when it fails."
_SPACE = "Check the free space and the permissions of that folder, or name another one with --remote-dir."
_HINTS = {
    "sbatch was not found": NO_SLURM,
    "too busy": "Try again later.",
    "given up": "Try again.",
    "does not print the time": "`date +%s` should work in a shell on that host.",
}
"The hint for each error that the remote folder did not cause, by a part of its text."


class Closed(CommandFailed):
    """An earlier submission with this key was refused or given up, and the key is not used again."""


class SnapshotGone(TransferFailed):
    """The remote host no longer has the content of an earlier job, and there is no new job."""

    @classmethod
    def of(cls, where: str, snapshot: str, parent: str) -> "SnapshotGone":
        """The error for a snapshot in the folder of a project."""
        return cls(
            f"{where} no longer has the files that the job ran: snapshot {snapshot[:12]} in {parent}",
            "--present-files sends the project as it is now.",
        )


class LoginFailed(TransferFailed):
    """A line of `before_login` failed on the login node, and there is no job."""


class Refused(CommandFailed):
    """Slurm refused the job; the key is not used again."""


def error_of(outcome: str, host: str, submission: Submission, text: str) -> RemoteError:
    """The error of an outcome other than `submitted`.

    Args:
        outcome: the first word of the reply.
    """
    failed = f"no job was made in {submission.folder} on {host}: "
    match outcome:
        case "refused":
            error = refusal(["sbatch"], Completed(1, b"", text.encode(errors="surrogateescape")))
            return Refused(error.fact, error.hint)
        case "failed" | "late":
            lines = text.strip().splitlines() or ["without a message"]
            cause = next((line for line in lines if hint_for(line) or _CAUSES.search(line)), lines[0])
            own = next((hint for part, hint in _HINTS.items() if part in cause), _SPACE)
            return TransferFailed(f"{failed}{cause}", hint_for(cause) or own)
        case "unsafe":
            return TransferFailed(
                f"{failed}{text}, who could change what jobs run",
                "Name a folder of your own with --remote-dir; slurmgen makes it with mode 700.",
            )
        case "undelivered":
            complaint = replies.complaint(text, "sbatch")
            return TransferFailed(
                f"Slurm on {host} did not receive the job: {complaint}",
                f"There is no job. {hint_for(complaint) or 'Try again.'}",
            )
        case "wanted":
            return TransferFailed(f"a snapshot disappeared from {submission.parent} on {host}", "Try again.")
        case "stopped":
            fact, _, output = text.rstrip().partition("\n")
            end = f" The end of {output}" if output else ""
            hint = f"There is no job. Submit again to run the lines again.{end}"
            return LoginFailed(f"before_login {fact}", hint)
        case "closed":
            fact = f"an earlier submission of {submission.run} was refused or given up"
            return Closed(fact, "Submit it again.")
        case _:
            return CommandFailed(" ".join(text.split()))
