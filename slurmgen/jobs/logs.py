"""A job's log: where it is, what is in it, and following it to the job's end."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed
from slurmgen.jobs.slurm_client import call, ended, job_states
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FIRST_PAUSE = 1.0
REST = 0.3
"Seconds for which the log of an ended job must not grow."
LONGEST_PAUSE = 10.0
"Seconds between two looks at a log in which nothing happens; a controller serves many people."

LOOKS_AFTER_END = 3
"Looks at a log after which it is left although it still grows: its job has ended."

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


class Shown:
    """How far a log has been shown; it outlives the link that the log came over."""

    def __init__(self, show: Callable[[bytes], None], start: int = 0) -> None:
        self._show = show
        self.bytes = start
        self.steps = 0
        "Grows whenever the far side has answered."

    def __call__(self, chunk: bytes) -> None:
        """Show some more."""
        self._show(chunk)
        self.bytes += len(chunk)
        self.steps += 1


def follow(
    far: Transport,
    job: JobId,
    path: str,
    shown: Shown,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[JobState, ...]:
    """Show the log until the job has ended and its log is at rest; returns how the job ended."""
    pause, looks_after = FIRST_PAUSE, 0
    while True:
        before = shown.bytes
        # Asked before reading, so that the last words of an ended job are read too.
        states = job_states(far, job)
        shown.steps += 1
        for chunk in read(far, path, before):
            shown(chunk)
        is_over, new = ended(states), shown.bytes > before
        if (looks_after and is_over and not new) or looks_after == LOOKS_AFTER_END:
            return states
        looks_after = looks_after + 1 if is_over else 0
        pause = FIRST_PAUSE if new or is_over else min(pause * 1.5, LONGEST_PAUSE)
        sleep(REST if is_over else pause)
