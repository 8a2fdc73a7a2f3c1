"""What the remote host replies if it makes no job, or does not know whether there is one, as errors."""

import re
from typing import TYPE_CHECKING

from slurmgen.errors import CommandFailed, RemoteError, TransferFailed
from slurmgen.jobs.slurm_client import NO_SLURM, hint_for, refusal
from slurmgen.remote.transport import Completed
from slurmgen.slurm import replies

if TYPE_CHECKING:
    from slurmgen.jobs.exactly_once import Submission

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


def error_of(outcome: str, host: str, submission: "Submission", text: str) -> RemoteError:
    """The error of an outcome other than `submitted`.

    Args:
        outcome: the first word of the reply.
        host: who replied.
        submission: what was sent.
        text: the rest of the reply.
    """
    return _ERRORS.get(outcome, _unknown)(host, submission, text)


def _refused(_host: str, _submission: "Submission", text: str) -> RemoteError:
    error = refusal(["sbatch"], Completed(1, b"", text.encode(errors="surrogateescape")))
    return Refused(error.fact, error.hint)


def _failed(host: str, submission: "Submission", text: str) -> RemoteError:
    lines = text.strip().splitlines() or ["without a message"]
    cause = next((line for line in lines if hint_for(line) or _CAUSES.search(line)), lines[0])
    hint = hint_for(cause) or next((hint for part, hint in _HINTS.items() if part in cause), _SPACE)
    return TransferFailed(f"no job was made in {submission.folder} on {host}: {cause}", hint)


def _unsafe(host: str, submission: "Submission", text: str) -> RemoteError:
    return TransferFailed(
        f"no job was made in {submission.folder} on {host}: {text}, who could change what jobs run",
        "Name a folder of your own with --remote-dir; slurmgen makes it with mode 700.",
    )


def _undelivered(host: str, submission: "Submission", text: str) -> RemoteError:
    complaint = replies.complaint(text, "sbatch")
    return TransferFailed(
        f"Slurm on {host} did not receive the job: {complaint}",
        f"There is no job. {hint_for(complaint) or 'Try again.'}",
    )


def _wanted(host: str, submission: "Submission", _text: str) -> RemoteError:
    return TransferFailed(f"a snapshot disappeared from {submission.parent} on {host}", "Try again.")


def _stopped(_host: str, _submission: "Submission", text: str) -> RemoteError:
    fact, _, output = text.rstrip().partition("\n")
    end = f" The end of {output}" if output else ""
    return LoginFailed(f"before_login {fact}", f"There is no job. Submit again to run the lines again.{end}")


def _closed(_host: str, submission: "Submission", _text: str) -> RemoteError:
    return Closed(f"an earlier submission of {submission.run} was refused or given up", "Submit it again.")


def _unknown(_host: str, _submission: "Submission", text: str) -> RemoteError:
    return CommandFailed(" ".join(text.split()))


_ERRORS = {
    "refused": _refused,
    "failed": _failed,
    "late": _failed,
    "unsafe": _unsafe,
    "undelivered": _undelivered,
    "wanted": _wanted,
    "stopped": _stopped,
    "closed": _closed,
    "unknown": _unknown,
}
