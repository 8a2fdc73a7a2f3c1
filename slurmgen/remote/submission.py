"""Submitting: one folder over there with the project and the script in it, then sbatch."""

import re
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import CommandFailed, ConnectionFailed, Interrupted, RequestError, TransferFailed
from slurmgen.remote import snapshot, transport
from slurmgen.remote.slurm import call, refusal
from slurmgen.remote.snapshot import Snapshot
from slurmgen.remote.transport import TimedOut, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.shell import visible

SBATCH_TIMEOUT = 120.0
"Seconds that sbatch may take; a busy controller does take a minute."
SLOWEST_LINK = 50_000
"Bytes a second, below which sending the project counts as hung."

# Only the last `mkdir` may not find its folder: a submission has it to itself. $PWD stands
# between NULs, since a profile may print anything around it.
_UNPACK = (
    'umask 077 && mkdir -p "$1" && mkdir "$2" && cd "$2" && tar -x -o -p -f - && mkdir -p "$3" '
    '&& printf "\\000%s\\000" "$PWD"'
)
# In the path of a log, folder included, Slurm fills in %j and takes a backslash away.
_UNFIT = re.compile(r"[%\\\x00-\x1f\x7f]")
_UNSURE = (
    "The job may have been accepted all the same: look with `squeue --me` there before you submit again."
)


class Submission(Struct, frozen=True, kw_only=True):
    """All that is sent for one job."""

    name: str
    "Name of the job."
    script: str
    "Text of the batch script."
    files: Snapshot
    parent: str
    "Folder that holds the submissions of this project; relative to the home over there."
    key: str
    "Name of this submission's own folder in it."
    output: str
    "The log's name as Slurm has it, with its %j."

    @property
    def folder(self) -> str:
        """The submission's folder."""
        return f"{self.parent}/{self.key}"

    @property
    def script_name(self) -> str:
        """What the script is called in the folder."""
        return f"{_plain(self.name)}.sbatch"

    @property
    def log_dir(self) -> str:
        """The folder the log is written to; Slurm does not make it."""
        return rooted(str(PurePosixPath(self.output).parent))


class Submitted(Struct, frozen=True):
    """A job that Slurm took, and the folder it runs in."""

    job: JobId
    folder: str


def parent_folder(remote_dir: str, project: str) -> str:
    """Where the submissions of a project go; what does not begin with a slash is in the home over there.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    if _UNFIT.search(remote_dir):
        raise RequestError(
            f"the remote folder {remote_dir!r} has a %, a backslash or a control character",
            "Slurm reads those in the path of a log; give another with --remote-dir.",
        )
    return rooted(f"{remote_dir.removeprefix('~/').rstrip('/')}/{_plain(project) or 'project'}")


def rooted(path: str) -> str:
    """The same path, which can be taken neither for an option nor for a name in CDPATH."""
    return path if path.startswith("/") else f"./{path}"


def submit(far: Transport, submission: Submission) -> Submitted:
    """Send the project, then submit the job.

    Raises:
        TransferFailed: the project could not be sent; there is no job.
        CommandFailed: Slurm refused the job, or gave no answer, which the message tells apart.
        ConnectionFailed: the connection broke; the message says whether there may be a job.
        Interrupted: ^C came before the answer, so that there may be a job.
    """
    folder = send(far, submission)
    argv = commands.sbatch(f"{folder}/{submission.script_name}", folder)
    try:
        completed = call(far, argv, timeout=SBATCH_TIMEOUT)
    except (TimedOut, ConnectionFailed) as error:
        raise type(error)(error.fact, _UNSURE) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted before sbatch had answered", _UNSURE) from None
    if completed.returncode:
        raise refusal(argv, completed)
    job = replies.job_id(completed.out)
    if job is None:
        raise CommandFailed(f"sbatch answered without a job id: {completed.out.strip()!r}", _UNSURE)
    return Submitted(job, folder)


def send(far: Transport, submission: Submission) -> str:
    """Make the submission's folder, mode 700, and unpack everything into it; returns its full path."""
    files = {name: path for name, path in submission.files.files.items() if name != submission.script_name}
    argv = ["sh", "-c", _UNPACK, "tar", submission.parent, submission.folder, submission.log_dir]
    completed = far.run(
        argv,
        input=snapshot.tar(files, {submission.script_name: submission.script}),
        timeout=transport.COMMAND_TIMEOUT + submission.files.size / SLOWEST_LINK,
    )
    answer = completed.out.split("\0")
    if completed.returncode or len(answer) < 3:
        raise TransferFailed(
            f"the project could not be sent to {submission.folder} on {far.where}: "
            + replies.complaint(completed.err, "tar"),
            "Is there room, and may you write there? Another folder is given with --remote-dir.",
        )
    return answer[-2]


def try_out(far: Transport, script: str) -> str:
    """Ask Slurm whether it would take the script, and return its answer. Nothing is sent, no job made.

    Raises:
        CommandFailed: Slurm would refuse it.
    """
    argv = commands.sbatch_test()
    completed = call(far, argv, data=script.encode(), timeout=SBATCH_TIMEOUT)
    if completed.returncode:
        raise refusal(argv, completed)
    return visible(replies.trial(completed.err))


def _plain(name: str) -> str:
    """A name that is safe as a file's anywhere."""
    return re.sub(r"[^\w.+=:@-]", "_", name, flags=re.ASCII).lstrip(".-")
