"""A job's log: where it is, what is in it, and following it to the job's end."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed
from slurmgen.remote.slurm import call, ended, job_states
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 10.0
"Seconds between two looks at a log in which nothing happens; a controller serves many people."

# Slurm makes the log when the job starts, so before that there is nothing to read.
_READ = '[ ! -e "$1" ] || exec tail -c "+$2" "$1"'


def log_path(folder: str, output: str, name: str, job: str) -> str:
    """The log file of a job, from what was given to --output.

    Raises:
        CommandFailed: it is a whole array, of which each task has a log.

    >>> log_path("/home/me/run", "logs/%x-%j.out", "train", "12")
    '/home/me/run/logs/train-12.out'
    """
    number, _, task = job.partition("_")
    if "%a" in output and not task:
        raise CommandFailed(f"job {job} is an array, and each task has a log", f"Say which, such as {job}_0.")
    values = {"%x": name, "%j": number, "%A": number, "%a": task, "%%": "%"}
    file = re.sub("%[xjAa%]", lambda match: values[match[0]], output)
    return str(PurePosixPath(folder) / file)


def asked_path(far: Transport, job: JobId) -> str:
    """The log file of a job that slurmgen has no record of, as Slurm tells it.

    Raises:
        CommandFailed: Slurm does not know the job any more.
    """
    path = replies.log_path(call(far, commands.scontrol(job)).out)
    if path is None:
        raise CommandFailed(
            f"where job {job} writes its log is not known",
            "Neither your records nor Slurm on that site know it.",
        )
    return path


def read(far: Transport, path: str, start: int = 0) -> Iterator[bytes]:
    """The log from its byte `start` on; nothing if there is no log yet."""
    return far.stream(["sh", "-c", _READ, "tail", path, str(start + 1)], timeout=COMMAND_TIMEOUT)


def follow(
    far: Transport,
    job: JobId,
    path: str,
    show: Callable[[bytes], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[JobState, ...]:
    """Show the log until the job has ended and its log is at rest; returns how the job ended."""
    seen, pause, was_over = 0, FIRST_PAUSE, False
    while True:
        # Asked before reading, so that the last words of an ended job are read too.
        states = job_states(far, job)
        new = sum(map(_shown(show), read(far, path, seen)))
        is_over = ended(states)
        if is_over and was_over and not new:
            return states
        seen, was_over = seen + new, is_over
        pause = FIRST_PAUSE if new or is_over else min(pause * 1.5, LONGEST_PAUSE)
        sleep(pause)


def _shown(show: Callable[[bytes], None]) -> Callable[[bytes], int]:
    """Show some bytes and say how many there were."""

    def count(chunk: bytes) -> int:
        show(chunk)
        return len(chunk)

    return count
