"""A job's log: where it is, what is in it, and following it until the job ends."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed, RequestError, SlurmgenError
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.slurm_client import call, ended, query_states
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FIRST_PAUSE = 1.0
REST = 0.3
"Seconds for which the log of an ended job must not grow."
LONGEST_PAUSE = 10.0
"Seconds between two reads of a log that does not grow; many users share one controller."
READS_AFTER_END = 3
"Reads of a log after the job ended, even if the log still grows."
LONGEST_LINE = 1 << 16
"Bytes after which a line that does not end is shown, or left out, by its beginning."

# The byte of the log at which its last lines begin, or its last lines of a rank. A log that grows meanwhile
# is measured again; after some tries, the first line may be cut.
_TAIL = r"""
export LC_ALL=C
[ -e "$1" ] || { echo 0; exit; }
if [ "$3" ]; then
  grep -a -b -E "$3" "$1" | tail -n "$2" | head -n 1 | cut -d: -f1
  exit
fi
for try in 1 2 3 4 5; do
  size=$(wc -c <"$1") part=$(tail -n "$2" "$1" | wc -c)
  [ "$size" -ne "$(wc -c <"$1")" ] || break
done
echo "$((size - part))"
"""

_WIDEST = 10
_PATTERN = re.compile(r"%(\d*)([xjJAa%])", re.ASCII)

# Slurm creates the log when the job starts; before that there is nothing to read.
_READ = '[ ! -e "$1" ] || exec tail -c "+$2" "$1"'


def log_path(folder: str, output: str, name: str, job: str) -> str:
    """The log file of a job, from the value of --output or --error.

    Raises:
        CommandFailed: the job is a whole array, of which each task has a log.

    >>> log_path("/home/me/run", "logs/%x-%j.out", "train", "12")
    '/home/me/run/logs/train-12.out'
    """
    number, _, task = job.partition("_")
    if "%a" in output and not task:
        raise CommandFailed(
            f"job {job} is an array, and each task has a log", f"Name one task, such as {job}_0."
        )
    values = {"x": name, "j": number, "J": number, "A": number, "a": task, "%": "%"}
    file = _PATTERN.sub(lambda match: _filled(values[match[2]], match[1]), output)
    return str(PurePosixPath(folder) / file)


def _filled(value: str, width: str) -> str:
    """The value of a pattern; Slurm pads a number to the width, as in %4a."""
    return value.zfill(min(int(width or 0), _WIDEST)) if value.isdigit() else value


def is_known(output: str) -> bool:
    """Whether `log_path` knows all of the patterns; others, such as %N, need what only Slurm knows."""
    return "%" not in _PATTERN.sub("", output)


def find_log(transport: Transport, record: Record | None, job: JobId, *, stderr: bool = False) -> str:
    """The log file of a job, from the ledger or, where that does not suffice, from Slurm.

    Raises:
        CommandFailed: the job is a whole array, of which each task has a log, or Slurm knows none.
        RequestError: stderr has no file of its own.
    """
    if record is None:
        return query_path(transport, job, stderr=stderr)
    path = recorded_log(record, str(job), stderr=stderr)
    is_filled = is_known(record.stderr if stderr else record.output)
    return path if is_filled else query_path(transport, job, stderr=stderr)


def recorded_log(record: Record, job: str, *, stderr: bool = False) -> str:
    """The log file of a job in the ledger.

    Args:
        record: the job, or the array that it is a task of.
        job: its id.
        stderr: the file of stderr instead.

    Raises:
        CommandFailed: the job is a whole array, of which each task has a log.
        RequestError: it is a whole sweep; or stderr has no file of its own.
    """
    if record.tasks and job == record.id:
        raise RequestError(
            f"job {job} is a sweep, and each task has a log",
            f"Name a task, such as {job}_0, or its parameters, as in {record.name}[lr=1e-3].",
        )
    if stderr and not record.stderr:
        raise RequestError(f"job {job} writes stderr to its log", "Leave out --stderr.")
    return log_path(record.folder, record.stderr if stderr else record.output, record.name, job)


def recorded_logs(record: Record, job: str) -> tuple[str, ...]:
    """The file of a job's stdout and that of its stderr, if they differ; none if they are not known."""
    patterns = dict.fromkeys(filter(None, (record.output, record.stderr)))
    try:
        return tuple(log_path(record.folder, pattern, record.name, job) for pattern in patterns)
    except SlurmgenError:
        return ()


def query_path(transport: Transport, job: JobId, *, stderr: bool = False) -> str:
    """The log file of a job that is not in the ledger, as Slurm reports it.

    Raises:
        CommandFailed: Slurm no longer knows the job.
    """
    path = replies.log_path(call(transport, commands.scontrol(job)).out, stderr=stderr)
    if path is None:
        raise CommandFailed(
            f"the log of job {job} is not known",
            "Neither your records nor Slurm on that site know the job.",
        )
    return path


def read(transport: Transport, path: str, start: int = 0) -> Iterator[bytes]:
    """The log from its byte `start` on; nothing if there is no log yet."""
    return transport.stream(["sh", "-c", _READ, "tail", path, str(start + 1)], timeout=COMMAND_TIMEOUT)


def rank_pattern(rank: int) -> str:
    r"""A regular expression for the labels that torchrun and srun put before the lines of a rank.

    >>> rank_pattern(3)
    '^(\\[rank3\\]| *0*3):'
    """
    return rf"^(\[rank{rank}\]| *0*{rank}):"


def tail_start(transport: Transport, path: str, lines: int, rank: int | None = None) -> int:
    """The byte at which the last lines of a log begin, or the last lines that are labelled with a rank.

    Raises:
        CommandFailed: the log cannot be read.
    """
    argv = ["sh", "-c", _TAIL, "tail", path, str(lines), "" if rank is None else rank_pattern(rank)]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    reply = completed.out.strip()
    return int(reply) if re.fullmatch("[0-9]{1,18}", reply) else 0


class OfRank:
    """Passes on only the lines that are labelled with a rank."""

    def __init__(self, show: Callable[[bytes], None], rank: int) -> None:
        self._show = show
        self._pattern = re.compile(rank_pattern(rank).encode())
        self._held = b""
        self.found = False
        "Whether there was such a line."

    def __call__(self, part: bytes) -> None:
        """Pass on the lines that end in this part."""
        *lines, self._held = (self._held + part).split(b"\n")
        if len(self._held) > LONGEST_LINE:
            lines, self._held = [*lines, self._held], b""
        for line in lines:
            if self._pattern.match(line):
                self.found = True
                self._show(line + b"\n")

    def finish(self) -> None:
        """Pass on the last line, which has no end."""
        if self._held:
            self(b"\n")


class Shown:
    """How much of a log has been shown; it outlives the connection that the log came over."""

    def __init__(self, show: Callable[[bytes], None], start: int = 0) -> None:
        self._show = show
        self.bytes = start
        self.steps = 0
        "Grows whenever the remote host has replied."

    def __call__(self, chunk: bytes) -> None:
        """Show the next bytes."""
        self._show(chunk)
        self.bytes += len(chunk)
        self.steps += 1


class Followed:
    """A log that is followed until its job has ended and it no longer grows."""

    def __init__(self, job: JobId, path: str, shown: Shown) -> None:
        self.job = job
        self.path = path
        self.shown = shown
        self.pause = FIRST_PAUSE
        "Seconds until the next read."
        self._reads_after_end = 0

    def step(self, transport: Transport, states: tuple[JobState, ...]) -> bool:
        """Show what is new; returns whether all has been shown.

        Args:
            transport: the connection to the job's site.
            states: of the job, queried before, so that the last lines of an ended job are read too.
        """
        before = self.shown.bytes
        self.shown.steps += 1
        for chunk in read(transport, self.path, before):
            self.shown(chunk)
        is_over, grew = ended(states), self.shown.bytes > before
        if (self._reads_after_end and is_over and not grew) or self._reads_after_end == READS_AFTER_END:
            return True
        self._reads_after_end = self._reads_after_end + 1 if is_over else 0
        self.pause = REST if is_over else FIRST_PAUSE if grew else min(self.pause * 1.5, LONGEST_PAUSE)
        return False


def follow(
    transport: Transport,
    job: JobId,
    path: str,
    shown: Shown,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[JobState, ...]:
    """Show the log until the job has ended and its log no longer grows; returns how the job ended."""
    return follow_all(transport, [Followed(job, path, shown)], sleep)[job]


def follow_all(
    transport: Transport, logs: Sequence[Followed], sleep: Callable[[float], None] = time.sleep
) -> dict[JobId, tuple[JobState, ...]]:
    """Show the logs of jobs of one site until the jobs have ended; returns how they ended.

    One query serves all jobs.
    """
    found: dict[JobId, tuple[JobState, ...]] = {}
    left = list(logs)
    while True:
        states = query_states(transport, [one.job for one in left])
        found |= states
        left = [one for one in left if not one.step(transport, states[one.job])]
        if not left:
            return found
        sleep(min(one.pause for one in left))
