"""A job, its identity, its tasks and its logs, as the ledger knows them."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from msgspec import DecodeError, Struct, json

from slurmgen.errors import CommandFailed, RequestError, SlurmgenError
from slurmgen.ledger.ledger import Record, from_text
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.request.model import RUN_LOG, TASK_FOLDER, Parameters, matches
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import Identity, JobId
from slurmgen.slurm.dependencies import WORDS
from slurmgen.slurm.replies import GONE, JobState
from slurmgen.slurm.units import LOG_PATTERN, is_of_task
from slurmgen.status.failure import Why
from slurmgen.status.segments import Requeued, segments_of
from slurmgen.status.slurm import UNKNOWN, call, ended
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.plan.model import Sweeping

FINAL = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"States after which Slurm does not requeue a job by itself, as it may after a preemption or a node failure."
_FORGOTTEN = "Slurm has no record of it any more"
_FRESH = 60.0
"Seconds for which the same state is not recorded again: each time rewrites a part of the ledger."


class LastKnown(Struct, frozen=True):
    """The state of a job at an earlier query."""

    state: str
    at: str
    "The time of that query, as ISO 8601 in UTC."

    def age(self, now: datetime | None = None) -> float:
        """Seconds since that query."""
        try:
            return ((now or datetime.now(UTC)) - datetime.fromisoformat(self.at)).total_seconds()
        except (ValueError, TypeError):
            return float("inf")

    def text(self, now: datetime | None = None) -> str:
        """The state and its age.

        >>> LastKnown("RUNNING", "2026-01-31T12:00:00+00:00").text(datetime(2026, 1, 31, 12, 12, tzinfo=UTC))
        'RUNNING 12 min ago'
        """
        age = self.age(now)
        units = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
        if age == float("inf"):
            return self.state
        size, unit = next(one for one in units if age >= 2 * one[0] or one[0] == 1)
        number = max(0, int(age // size))
        return f"{self.state} {counted(number, unit) if unit == 'day' else f'{number} {unit}'} ago"

    def replaces(self, before: "LastKnown | None") -> bool:
        """Whether it is worth recording instead of an earlier one."""
        return before is None or before.state != self.state or not 0 <= before.age() < _FRESH


def states_text(states: Sequence[JobState], tasks: int = 0) -> str:
    """The final states of a job, one for each task; empty if it has not ended, or may be requeued.

    Without accounting, Slurm forgets the tasks of an array one by one, and these may not be all of them.

    Args:
        tasks: how many tasks a sweep has; 0 if it is not known.
    """
    is_whole = len(states) == 1 and not re.search("[_+]", states[0].id)
    has_usage = all(state.usage is not None for state in states)
    are_all = is_whole or (sum(map(_tasks, states)) == tasks if tasks else has_usage)
    is_final = bool(states) and are_all and all(state.state in FINAL for state in states)
    return json.encode(states).decode() if is_final else ""


def _tasks(state: JobState) -> int:
    """The tasks that a record is of: those that never ran share one, such as 12_[3,5-9%2]."""
    parts = re.findall("([0-9]+)(?:-([0-9]+))?", state.id.partition("[")[2].partition("%")[0])
    return sum(int(last or first) - int(first) + 1 for first, last in parts) if "[" in state.id else 1


def with_final(reply: tuple[JobState, ...], final: tuple[JobState, ...]) -> tuple[tuple[JobState, ...], str]:
    """Slurm's reply, completed with the final states of the ledger for what Slurm has forgotten.

    The text says why all states come from the ledger; it is empty if not all do.
    """
    known = tuple(state for state in reply if state.state not in (UNKNOWN, GONE))
    if not final or not ended(known):
        return reply, ""
    reason = "" if known else next((state.reason for state in reply), _FORGOTTEN)
    return tuple({state.id: state for state in (*final, *known)}.values()), reason


NEW = 60.0
"Seconds after the submission in which a job that Slurm does not list is not yet gone."
Connect = Callable[[Route], Transport]
Borrow = Callable[[Route], AbstractContextManager[Transport]]
"A connection for the time of a block, which may stay open after it."
Result = TypeVar("Result")


class Job(Struct, frozen=True):
    """One job, or one task of a job array."""

    id: JobId
    route: Route
    record: Record | None = None
    run: int | None = None
    "The run that is meant, of a task of a sweep that has several."

    @classmethod
    def of(cls, record: Record, route: Route) -> "Job":
        """The job of a record; a pending one has no id and no cluster yet."""
        return cls(job_id(record), route, record)

    @property
    def log(self) -> str:
        """Path of the log; empty if it is not known, or if each task has a log of its own."""
        if self.record is None or self.record.pending:
            return ""
        if self.run is not None:
            return f"{run_folder(self.record, str(self.id), self.run)}/{RUN_LOG}"
        try:
            return log_path(self.record.folder, self.record.output, self.record.name, str(self.id))
        except SlurmgenError:
            return ""

    @property
    def final(self) -> tuple[JobState, ...]:
        """The final states that the ledger keeps; empty if there are none."""
        states = from_text(self.record.final, list[JobState]) if self.record else None
        return tuple(state for state in states or () if self.id.covers(state.id))

    @property
    def why(self) -> Why | None:
        """The reason of a failure that the ledger keeps."""
        return from_text(self.record.why, Why) if self.record else None

    @property
    def last_known(self) -> LastKnown | None:
        """The state at the last query that the ledger keeps, of a job that had not ended."""
        return from_text(self.record.seen, LastKnown) if self.record and not self.record.final else None

    @property
    def may_requeue(self) -> bool:
        """Whether it was submitted with --requeue."""
        return self.record is not None and self.record.requeue

    @property
    def segments(self) -> int:
        """The array tasks that it may take, one after the other; 0 for a plain job or a task."""
        return segments_of(self.record) if self.record and self.is_recorded else 0

    @property
    def requeued(self) -> Requeued | None:
        """The last unfinished run that the ledger keeps."""
        return from_text(self.record.requeued, Requeued) if self.record else None

    @property
    def needs_query(self) -> bool:
        """Whether the ledger does not know how the job ended, or why it failed."""
        return not self.final or (self.why is None and any(state.state == "FAILED" for state in self.final))

    @property
    def is_recorded(self) -> bool:
        """Whether the record is of this job: not of the array that it is a task of, nor of another site."""
        record, route = self.record, self.route
        if record is None or record.id != self.id.number:
            return False
        return (record.site, record.via, record.host) == (route.site, route.via, route.host)

    @property
    def is_new(self) -> bool:
        """Whether the job was submitted so recently that Slurm may not list it yet."""
        try:
            age = datetime.now(UTC) - datetime.fromisoformat(self.record.submitted) if self.record else None
        except (ValueError, TypeError):
            return False
        return age is not None and 0 <= age.total_seconds() < NEW


def job_id(record: Record, id_: str = "") -> JobId:
    """The id of a record's job, or of a task of it, with its identity; empty for a pending one."""
    if record.pending:
        return JobId("")
    identity = Identity(record.name, record.submitted, record.key)
    return JobId(id_ or record.id, record.cluster, identity)


def group_by_route(jobs: Iterable[Job]) -> dict[Route, list[Job]]:
    """The jobs of each route, in their order."""
    groups: dict[Route, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.route, []).append(job)
    return groups


def for_each(
    jobs: Sequence[Job], connect: Connect, action: Callable[[Transport, Job], Result]
) -> list[Result]:
    """Call `action` for each job and return the results in the order of the jobs.

    Each site needs one login. Only one connection is open at a time: all jobs of the first site come first.
    """
    results: dict[Job, Result] = {}
    for route, group in group_by_route(jobs).items():
        with connect(route) as transport:
            results |= {job: action(transport, job) for job in group}
    return [results[job] for job in jobs]


class Dependency(Struct, frozen=True):
    """A job that must end before another one starts."""

    job: Job
    type: str
    "ok, notok or any."

    @property
    def name(self) -> str:
        """The id of the job, with its name if that is known."""
        return f"{self.job.id} ({self.job.record.name})" if self.job.record else str(self.job.id)

    @property
    def text(self) -> str:
        """When the job that depends on it starts."""
        return f"starts when job {self.name} {WORDS[self.type]}"


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
    file = LOG_PATTERN.sub(lambda match: _filled(values[match[2]], match[1]), output)
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


def find_log(transport: Transport, record: Record | None, job: JobId, *, stderr: bool = False) -> str:
    """The log file of a job, from the ledger or, where that does not suffice, from Slurm.

    Raises:
        CommandFailed: the job is a whole array, of which each task has a log, or Slurm knows none.
        RequestError: stderr has no file of its own.
    """
    if record is not None:
        path = recorded_log(record, str(job), stderr=stderr)
        # Other patterns than those of `log_path`, such as %N, need what only Slurm knows.
        if "%" not in LOG_PATTERN.sub("", record.stderr if stderr else record.output):
            return path
    text = call(transport, commands.scontrol(job)).out
    shown = replies.log_path(text, stderr=stderr)
    if shown is None or not all(replies.is_of(state, job) for state in replies.scontrol(text)):
        raise CommandFailed(
            f"the log of job {job} is not known", "Neither your records nor Slurm on that site know the job."
        )
    return shown


def recorded_log(record: Record, job: str, *, stderr: bool = False) -> str:
    """The log file of a job in the ledger.

    Args:
        record: the job, or the array that it is a task of.
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


_SELECTION = re.compile(r"(?P<job>[^\[\]]+)\[(?P<parameters>.+)\]", re.DOTALL)
_HINT = "Write NAME[lr=1e-3], or several with commas; `slurmgen status NAME --tasks` lists them."


class Table(Struct, frozen=True, omit_defaults=True):
    """The parameters of the tasks of one array."""

    tasks: dict[int, tuple[dict[str, str], ...]]
    "By the index of a task, those of each of its runs."
    first: int = 0
    "The task of the sweep that is task 0 of the array."
    per_task: int = 1
    "Runs of a task; the last one of a sweep may have fewer."

    @property
    def shares_gpus(self) -> bool:
        """Whether a task has several runs."""
        return self.per_task > 1


def names_of(tables: Sequence[Table]) -> list[str]:
    """The names of all parameters, in order."""
    runs = (run for table in tables for runs in table.tasks.values() for run in runs)
    return list(dict.fromkeys(name for run in runs for name in run))


def sweep_text(sweep: "Sweeping | None") -> str:
    """The text for `Record.tasks`; empty without a sweep."""
    if sweep is None:
        return ""
    tasks = {index: tuple(map(dict, runs)) for index, runs in sweep.table().items()}
    return json.encode(Table(tasks, sweep.array.first, sweep.per_task)).decode()


def table_of(record: Record | None) -> Table | None:
    """The table of a record; None if it is of no sweep, or of another version of slurmgen."""
    if record is None or not record.tasks:
        return None
    try:
        return json.decode(record.tasks, type=Table)
    except DecodeError:
        return None


class Selection(Struct, frozen=True):
    """The runs of a job that the user selects by their parameters."""

    job: str
    "An id or a name."
    parameters: Parameters


def selection(text: str) -> Selection | None:
    """What `NAME[lr=1e-3,seed=1]` selects; None for another name.

    Raises:
        RequestError: the brackets do not contain parameters.
    """
    match = _SELECTION.fullmatch(text)
    if match is None:
        return None
    pairs = [part.partition("=") for part in match["parameters"].split(",")]
    if not all(name and equals for name, equals, _ in pairs):
        raise RequestError(f"{match['parameters']!r} are not parameters of a run", _HINT)
    return Selection(match["job"], {name: value for name, _, value in pairs})


def chosen(record: Record, asked: Parameters) -> Iterator[tuple[int, int | None]]:
    """The tasks with these parameters, each with the number of its run if it has several."""
    table = table_of(record)
    for index, runs in table.tasks.items() if table else ():
        for number, run in enumerate(runs):
            if matches(asked, run):
                yield index, number if table and table.shares_gpus else None


def check_parameters(records: Sequence[Record], asked: Selection) -> None:
    """Refuse parameters that no run has.

    Raises:
        RequestError: it names the parameters of the sweep.
    """
    names = names_of([table for record in records if (table := table_of(record))])
    if not names:
        raise RequestError(f"job {asked.job} is not a sweep", "Only the runs of a sweep have parameters.")
    for name in asked.parameters:
        if name not in names:
            raise RequestError(
                f"the sweep {asked.job} has no parameter {name}", f"It has {', '.join(names)}."
            )
    raise RequestError(
        f"no run of {asked.job} has {', '.join(f'{name}={text}' for name, text in asked.parameters.items())}",
        f"`slurmgen status {asked.job} --tasks` lists all.",
    )


def run_folder(record: Record, task: str, run: int | None = None) -> str:
    """The folder of a run, in that of its job.

    Args:
        task: the id of the task, such as 12_3.
        run: the number of the run in its task, if the task has several.
    """
    part = f"/{run}" if run is not None else ""
    return f"{record.folder}/{TASK_FOLDER}/{task}{part}"


def tasks_of(record: Record | None) -> int:
    """The number of tasks of a sweep's array; 0 for another job."""
    table = table_of(record)
    return len(table.tasks) if table else 0


def parameters_of(task: str, tables: Mapping[str, Table]) -> list[dict[str, str]]:
    """The parameters of each run of a task; none for a task of another job.

    Args:
        task: its id, such as 12_3.
        tables: the table of each array, by the id of the array.
    """
    array, _, index = task.partition("_")
    runs = tables[array].tasks.get(int(index), ()) if array in tables and index.isdecimal() else ()
    return list(runs)
