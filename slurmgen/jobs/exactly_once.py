"""Submitting: the far side makes one job of a key, however often it is asked."""

import re
from collections.abc import Callable, Iterable, Iterator
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
from slurmgen.jobs.slurm_client import NO_SLURM, call, hint_for, refusal
from slurmgen.remote.transport import Completed, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.sync.archive import pack
from slurmgen.sync.delta import Parcel, difference, expected
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Manifest, Sent
from slurmgen.sync.remote_paths import plain, rooted
from slurmgen.text import visible

SLOWEST_LINK = 50_000
"Bytes a second, below which sending the project counts as hung."
COMMENT = "slurmgen:"
"Stands before the key in a job's comment."

_AGAIN = "The same command again finds the job, or submits it if there is none."
_LONGEST_NAME = 100
_LONGEST = 4096
"Characters of a path."
_SECONDS = re.compile(r"[0-9]{1,11}")
_CAUSES = re.compile("No space|quota|too large|Read-only|Permission", re.IGNORECASE)
"What tells why, among the many lines of a tar that failed."
_ROOM = "Is there room, and may you write there? Another folder is given with --remote-dir."
_HINTS = {
    "finds no sbatch": NO_SLURM,
    "too busy": "Try again later.",
    "given up": "Try again.",
    "does not tell the time": "`date +%s` should work when typed there.",
}
"What to do where no job was made for another reason than the folder."


Count = Callable[[int, int], None]
"Is called with the bytes of a part, and with how many there are in all."


class Waits(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds; the far side knows only whole ones."""

    sbatch: int = 120
    "For sbatch; a busy controller does take a minute."
    grace: int = 5
    "Until a job must show that an earlier sbatch submitted."

    answer: float = 420.0
    "For the whole answer: another terminal's sbatch, then ours, and Slurm asked after each."


WAITS = Waits()


class Submission(Struct, frozen=True, kw_only=True):
    """All that is sent for one job."""

    name: str
    "Name of the job."
    script: str
    "Text of the batch script."
    files: Snapshot
    content: Manifest
    "Of these files."
    parent: str
    "Folder for this project; relative to the home over there."
    key: str
    "Names this submission; whatever happens, it has one job at most."
    output: str
    "The log's name as Slurm has it, with its %j."
    comment: str = ""
    "A person's own, for the job."
    clusters: str = ""
    "What the script says to --clusters, where one controller speaks for several."
    record: str = ""
    "What a person may want to know of it later, kept over there."

    @property
    def run(self) -> str:
        """What its folder is called."""
        return f"{plain(self.name)[:_LONGEST_NAME]}-{self.key}"

    @property
    def folder(self) -> str:
        """The folder the job runs in."""
        return f"{self.parent}/runs/{self.run}"

    @property
    def script_name(self) -> str:
        """What the script is called in the folder."""
        return f"{plain(self.name)[:_LONGEST_NAME]}.sbatch"

    @property
    def log_dir(self) -> str:
        """The folder the log is written to; Slurm does not make it."""
        return rooted(str(PurePosixPath(self.output).parent))

    @property
    def log_prefix(self) -> str:
        """The log's path up to the job's id; nothing if others write there too."""
        return log_prefix(self.output, self.name)


def log_prefix(output: str, name: str) -> str:
    """The path of a job's log up to its id; nothing if others write there too."""
    before, percent, after = output.replace("%x", name).partition("%")
    return before if percent and after[:1] in {"j", "A"} and not before.startswith("/") else ""


class Submitted(Struct, frozen=True):
    """A job that Slurm took, and the folder it runs in."""

    job: JobId
    folder: str
    earlier: bool = False
    "Whether it was there already, from an earlier submission with this key."
    seconds: int = 0
    "When, since 1970 by the clock over there."
    snapshot: str = ""
    "The hash of what it runs."
    warning: str = ""
    "Who else could change what it runs; nothing if nobody could."


class Closed(CommandFailed):
    """An earlier submission with this key was refused or given up, and the key is not used again."""


class Refused(CommandFailed):
    """Slurm refused the job; the key is not used again."""


def submit(
    far: Transport,
    submission: Submission,
    sent: Sent,
    waits: Waits = WAITS,
    count: Count | None = None,
    first: Parcel | None = None,
) -> Submitted:
    """Make sure that there is one job of this key: send what is missing over there, then submit it.

    Args:
        far: where to.
        submission: what.
        sent: the manifests of what was sent before.
        waits: how long to wait.
        count: is told of each part of the project that is sent.
        first: what `expected` said, if that was asked before.

    Raises:
        TransferFailed: the project could not be sent; this made no job.
        Refused, Closed: Slurm refused the job, now or before, and there is none.
        Unresolved: there may be a job.
        Interrupted: ^C came before the answer, so that there may be a job.
    """
    try:
        parcel = first or expected(submission.content, sent)
        return _submit(far, submission, sent, waits, count or _uncounted, parcel)
    except (Refused, Closed, TransferFailed):
        raise
    except (CommandFailed, ConnectionFailed) as error:
        raise Unresolved(f"whether there is a job is not known: {error.fact}", _AGAIN) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted before it was known whether there is a job", _AGAIN) from None


def _submit(
    far: Transport, submission: Submission, sent: Sent, waits: Waits, count: Count, parcel: Parcel
) -> Submitted:
    for _ in range(3):  # what is there is told, if it is not what was expected
        total = sum(submission.content.entries[name].size for name in parcel.names)
        data = _counted(pack(submission.files.files, submission.content, parcel.names), total, count)
        outcome, *told = _asked(far, submission, parcel, data, waits)
        if outcome != "wanted":
            break
        parcel = difference(submission.content, sent, told)
    if outcome == "submitted" and parcel.base != "?":
        sent.add(submission.content)
    return _ANSWERS.get(outcome, _unknown)(far, submission, told)


def _asked(
    far: Transport, submission: Submission, parcel: Parcel, data: Iterable[bytes], waits: Waits
) -> list[str]:
    names = b"".join(_name(name) for name in parcel.gone)
    args = [
        *(submission.parent, submission.run, submission.key, submission.content.hash),
        *(parcel.base, str(len(names))),
        *(submission.script_name, submission.script, submission.record),
        *(submission.log_dir, submission.log_prefix),
        *(f"{submission.comment} {COMMENT}{submission.key}".strip(), submission.clusters),
        *(str(waits.sbatch), str(waits.grace)),
    ]
    size = 0 if parcel.base == "?" else submission.content.size
    timeout = waits.answer + size / SLOWEST_LINK
    return remote_scripts.ask(far, "submit", args, _joined(names, data), timeout=timeout) + [""] * 5


def _joined(names: bytes, data: Iterable[bytes]) -> Iterator[bytes]:
    yield names
    yield from data


def _name(name: str) -> bytes:
    return name.encode(errors="surrogateescape") + b"\0"


def _counted(parts: Iterable[bytes], total: int, count: Count) -> Iterator[bytes]:
    for part in parts:
        yield part
        count(len(part), total)


def _uncounted(_part: int, _total: int) -> None:
    pass


def submitted(far: Transport, told: list[str]) -> Submitted:
    """The job in an answer.

    Raises:
        CommandFailed: there is none in it.
    """
    job, seconds = replies.job_id(told[0]), told[3]
    if job is None or not _SECONDS.fullmatch(seconds):
        raise CommandFailed(f"{far.where} answered without a job id: {told[0]!r}")
    if not told[1].startswith("/") or max(map(len, told)) > _LONGEST:
        raise CommandFailed(f"{far.where} answered without the folder of job {job}: {told[1]!r}")
    return Submitted(job, told[1], told[2] == "earlier", int(seconds), told[4], told[5])


def _done(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    return submitted(far, told)


def _refused(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    answer = Completed(1, b"", told[0].encode(errors="surrogateescape"))
    error = refusal(["sbatch"], answer)
    raise Refused(error.fact, error.hint)


def _failed(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    lines = told[0].strip().splitlines() or ["it gave no reason"]
    words = next((line for line in lines if hint_for(line) or _CAUSES.search(line)), lines[0])
    hint = hint_for(words) or next((hint for part, hint in _HINTS.items() if part in words), _ROOM)
    raise TransferFailed(f"no job was made in {submission.folder} on {far.where}: {words}", hint)


def _unsafe(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    raise TransferFailed(
        f"no job was made in {submission.folder} on {far.where}: {told[0]}, who could change what jobs run",
        "Name a folder of your own with --remote-dir; slurmgen makes it with mode 700.",
    )


def _unheard(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    said = replies.complaint(told[0], "sbatch")
    hint = f"There is no job. {hint_for(said) or 'Try again.'}"
    raise TransferFailed(f"Slurm on {far.where} did not receive the job: {said}", hint)


def _wanted(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    raise TransferFailed(f"a snapshot vanishes from {submission.parent} on {far.where}", "Try again.")


def _closed(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    raise Closed(f"an earlier submission of {submission.run} was refused or given up", "Submit it again.")


def _unknown(far: Transport, submission: Submission, told: list[str]) -> Submitted:
    raise CommandFailed(" ".join(told[0].split()))


_ANSWERS = {
    "submitted": _done,
    "refused": _refused,
    "failed": _failed,
    "unsafe": _unsafe,
    "unheard": _unheard,
    "wanted": _wanted,
    "closed": _closed,
    "unknown": _unknown,
}


def try_out(far: Transport, script: str) -> str:
    """Ask Slurm whether it would take the script, and return its answer. Nothing is sent, no job made.

    Raises:
        CommandFailed: Slurm would refuse it.
    """
    argv = commands.sbatch_test()
    completed = call(far, argv, data=script.encode(), timeout=float(WAITS.sbatch))
    if completed.returncode:
        raise refusal(argv, completed)
    return visible(replies.trial(completed.err))
