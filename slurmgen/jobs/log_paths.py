"""Where the log of a job is."""

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from slurmgen.errors import CommandFailed, RequestError, SlurmgenError
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.slurm_client import call
from slurmgen.remote.transport import Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.log_pattern import PATTERN, is_of_task

_WIDEST = 10


def log_path(folder: str, output: str, name: str, job: str) -> str:
    """The log file of a job, from the value of --output or --error.

    Raises:
        CommandFailed: the job is a whole array, of which each task has a log.

    >>> log_path("/home/me/run", "logs/%x-%j.out", "train", "12")
    '/home/me/run/logs/train-12.out'
    """
    number, _, task = job.partition("_")
    if is_of_task(output) and not task:
        raise CommandFailed(
            f"job {job} is an array, and each task has a log", f"Name one task, such as {job}_0."
        )
    values = {"x": name, "j": number, "J": number, "A": number, "a": task, "%": "%"}
    file = PATTERN.sub(lambda match: _filled(values[match[2]], match[1]), output)
    return str(PurePosixPath(folder) / file)


def _filled(value: str, width: str) -> str:
    """The value of a pattern; Slurm pads a number to the width, as in %4a."""
    return value.zfill(min(int(width or 0), _WIDEST)) if value.isdigit() else value


def logs_in(project: Path, records: Iterable[Record]) -> re.Pattern[str] | None:
    """Matches the names in a project of the logs of recorded jobs, and of later runs of their scripts."""
    root = project.resolve()
    paths = {
        (f"{record.folder}/{output}" if not output.startswith("/") else output, record.name)
        for record in records
        for output in (record.output, record.stderr)
        if output
    }
    found = {name for path, job in paths if (name := _name_in(root, os.path.normpath(path), job))}
    return re.compile("|".join(sorted(found))) if found else None


def _name_in(root: Path, path: str, job: str) -> str | None:
    """The regular expression for the names of such a log in a project, if it is in there."""
    head = path.partition("%")[0].rpartition("/")[0]
    log = Path(os.path.realpath(f"{head}/"), path[len(head) + 1 :])
    if not log.is_relative_to(root):
        return None
    parts = re.split(r"%\d*([A-Za-z%])", str(log.relative_to(root)))
    fixed = {"%": "%", "x": re.escape(job), **dict.fromkeys("jJAant", r"\d+")}
    return "".join(fixed.get(part, "[^/]*") if at % 2 else re.escape(part) for at, part in enumerate(parts))


def is_known(output: str) -> bool:
    """Whether `log_path` knows all of the patterns; others, such as %N, need what only Slurm knows."""
    return "%" not in PATTERN.sub("", output)


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
    text = call(transport, commands.scontrol(job)).out
    path = replies.log_path(text, stderr=stderr)
    if path is None or not all(replies.is_of(state, job) for state in replies.scontrol(text)):
        raise CommandFailed(
            f"the log of job {job} is not known",
            "Neither your records nor Slurm on that site know the job.",
        )
    return path
