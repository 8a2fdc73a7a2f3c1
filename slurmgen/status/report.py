"""What is known of a job, as one report and as JSON."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from msgspec import Struct

from slurmgen.ledger.ledger import Record
from slurmgen.slurm import pending, units
from slurmgen.slurm.replies import GONE, WAITING, JobState, Usage, whole_seconds
from slurmgen.status.failure import Why
from slurmgen.status.job import Job, LastKnown, Table, parameters_of, table_of
from slurmgen.status.preflight_reports import Findings
from slurmgen.status.segments import HELD_WITHOUT_PROGRESS, Requeued, main_state, which
from slurmgen.status.slurm import UNKNOWN, ended, outcome

MARGIN = 1.25
"How much more than the job used the next request asks for: runs differ, and Slurm samples memory."
_STEPS = ((3600, 300), (12 * 3600, 1800), (1 << 62, 3600))
"Seconds up to which a time limit is rounded up to a multiple of the second number."


class Enough(Struct, frozen=True, kw_only=True):
    """The options of a smaller request; None where the request was not too large, or too little is known."""

    mem: str | None = None
    "Memory of one node, for --mem."
    time: str | None = None
    "Time limit, for --time."

    def __str__(self) -> str:
        options = {"--mem": self.mem, "--time": self.time}
        return " ".join(f"{name} {value}" for name, value in options.items() if value)


def enough(usage: Usage | None, elapsed: int | None, time_limit: int | None) -> Enough | None:
    """The smaller request that would have sufficed; None if there is none, or if too little is known.

    >>> str(enough(Usage(nodes=2, memory=131072, memory_used=16000), 5400, 14400))
    '--mem 10G --time 02:00:00'
    """
    found = Enough(mem=_memory(usage) if usage else None, time=_time(elapsed or 0, time_limit or 0))
    return found if found.mem or found.time else None


def _memory(usage: Usage) -> str | None:
    if not (usage.memory and usage.memory_used and usage.nodes):
        return None
    needed = _rounded_up(usage.memory_used * MARGIN / usage.nodes, 1024)
    return units.canonical_size(needed) if needed < usage.memory // usage.nodes else None


def _time(elapsed: int, time_limit: int) -> str | None:
    needed = elapsed * MARGIN
    needed = _rounded_up(needed, next(step for most, step in _STEPS if needed <= most))
    return units.canonical_time(needed) if elapsed and needed < time_limit else None


def _rounded_up(number: float, step: int) -> int:
    return ceil(number / step) * step


class TaskObject(Struct, frozen=True, kw_only=True):
    """One task of an array."""

    id: str
    "The id of the array and the number of the task, as 12_3."
    state: str
    "Slurm's state."
    exit_code: int | None
    "Null while it runs, and if a signal ended it."
    other_exit_code: int | None
    "The exit code that it may have instead, else null."
    signal: int | None
    "The number of the signal that ended it, else null."
    reason: str
    "Slurm's reason why it is pending."
    elapsed: int | None
    "Seconds that it has run."
    nodes: str
    "Its nodes, in Slurm's notation."
    parameters: list[dict[str, str]]
    "Of a sweep: the parameters of each run of the task; else empty."


class Winner(Struct, frozen=True, kw_only=True):
    """The job that won a race of --first: the one that ran the program."""

    id: str
    site: str


class JobObject(Struct, frozen=True, kw_only=True):
    """One job, and all that is known of it."""

    id: str
    "Empty for an unsettled submission."
    name: str
    site: str
    via: str
    "How the site is reached: `ssh`, `local` or `twin`."
    cluster: str
    "The cluster, if the site has several; else empty."
    state: str
    "Slurm's state; `GONE` if Slurm no longer knows the job, `UNKNOWN` if the query failed."
    ended: bool
    "Whether the state is final."
    exit_code: int | None
    "The exit code of the batch script; null while it runs, and if a signal ended it."
    other_exit_code: int | None
    "The exit code that it may have instead: accounting shows one of 128 and more 128 too small. Else null."
    signal: int | None
    "The number of the signal that ended it, else null."
    reason: str
    "Slurm's reason why it is pending, as a code."
    waits: str
    "The same in words."
    why: Why | None
    "Why it failed."
    bad_nodes: dict[str, str]
    "What its preflight found, by the name of the node."
    excludes: str
    "The nodes that it excludes while it is pending, in Slurm's notation."
    requeued: Requeued | None
    "Its last unfinished run."
    start: str
    "Actual or expected start, in the local time of the site."
    elapsed: int | None
    "Seconds that it has run."
    time_limit: int | None
    "Seconds."
    nodes: str
    "Its nodes, in Slurm's notation."
    usage: Usage | None
    "What it used; null until it has ended."
    enough: Enough | None
    "The smaller request that would have sufficed, with a margin; null if there is none, or it is not known."
    tasks: list[TaskObject]
    "The tasks of an array; empty for other jobs."
    submitted: str
    "Time of the submission, as ISO 8601 in UTC."
    folder: str
    "The run folder on the cluster."
    log: str
    "Path of the log on the cluster; empty if each task has one."
    commit: str
    "Git commit of the project."
    dirty: bool
    "Whether the project had uncommitted changes."
    key: str
    "Idempotency key of the submission."
    command: str
    "The command that submitted it."
    directory: str
    "The working directory of that command."
    lost_to: Winner | None
    "The job that was chosen instead of this one, which does not run the program; null for other jobs."
    error: str
    "Why the state is unknown, else empty."
    remembered: str
    "Why the state is from the ledger and not from Slurm, else empty."
    last_known: LastKnown | None
    "The state at an earlier query, if the state is unknown because the site was not reached; else null."


_SIGNAL_OF_STATE = {
    "OUT_OF_MEMORY": 9,
    "TIMEOUT": 15,
    "DEADLINE": 15,
    "CANCELLED": 15,
    "PREEMPTED": 15,
    "REVOKED": 15,
    "NODE_FAIL": None,
    "BOOT_FAIL": None,
}
"The signal with which Slurm ends such a job, if it does, whatever its record contains."
_SLURMD_FAILED = 53
"Slurm records 0:53 if slurmd could not start the job; it is not the number of a signal."
_NO_RECORD = Record(id="", site="", via="local", name="", folder="", output="", submitted="")


class Report(Struct, frozen=True, kw_only=True):
    """All that is known of one job. Times are in seconds, sizes in MiB."""

    job: Job
    state: str
    "Slurm's; GONE if Slurm has no record of the job any more, UNKNOWN if the query failed."
    states: tuple[JobState, ...] = ()
    "Slurm's reply: one state, or one for each task of an array; empty if it does not list the job."
    why: Why | None = None
    "Why it failed."
    requeued: Requeued | None = None
    "Its last unfinished run."
    error: str = ""
    "Why nothing is known: the site was not reached, or the submission is unsettled."
    bad_nodes: Findings = {}
    "What its preflight found against nodes, by their names."
    remembered: str = ""
    "Why the states come from the ledger and not from Slurm; empty if they are Slurm's."
    lost_to: Winner | None = None
    "The job that was chosen instead of this one in a race."
    further: tuple[Record, ...] = ()
    "The records of the other arrays of a sweep, whose states are among these."

    @property
    def ended(self) -> bool:
        """Whether the job will not run any more."""
        return self.state == GONE or (bool(self.states) and ended(self.states))

    @property
    def main(self) -> JobState:
        """The state of the job; of an array, the one of its tasks that the job's state is taken from."""
        unknown = JobState(id=self.job.id.number, state=self.state)
        if self.job.segments:
            return main_state(self.states, self.state) or unknown
        return next((state for state in self.states if state.state == self.state), unknown)

    @property
    def name(self) -> str:
        """Name of the job; empty if it is not known."""
        return (self.job.record.name if self.job.record else "") or self.main.name

    @property
    def is_array(self) -> bool:
        """Whether Slurm listed tasks of an array, or components of a heterogeneous job."""
        return any(state.id != self.job.id.number for state in self.states)

    @property
    def segment(self) -> str:
        """The segment that runs, waits or ran last, in words; empty for a plain job."""
        return which(self.states, self.job.segments) if self.job.segments and self.states else ""

    @property
    def table(self) -> Table | None:
        """The parameters of the tasks, if it is a sweep or a task of one."""
        return table_of(self.job.record)

    @property
    def reason(self) -> str:
        """Slurm's reason why it is pending."""
        return _reason(self.main)

    @property
    def is_stuck(self) -> bool:
        """Whether its script holds it, because it made no progress."""
        return self.state == "PENDING" and self.requeued is not None and self.requeued.held and self.is_held

    @property
    def is_held(self) -> bool:
        """Whether it waits until it is released."""
        return "held" in self.main.reason.lower()

    @property
    def held_task(self) -> str:
        """The job or task to release, if Slurm holds it; empty for another one."""
        by_slurm = self.main.reason.replace(" ", "_") in pending.HELD_BY_SLURM
        return self.main.id if self.state == "PENDING" and by_slurm and not self.is_stuck else ""

    @property
    def waits(self) -> str:
        """Why the job is pending, in words."""
        if self.is_stuck:
            return HELD_WITHOUT_PROGRESS
        return pending.reason_words(self.main.reason) if self.state in WAITING else ""

    @property
    def lost(self) -> str:
        """Which job was chosen instead of this one, in words; empty for other jobs."""
        if self.lost_to is None:
            return ""
        return f"lost the race to job {self.lost_to.id} at {self.lost_to.site}, and does not run the program"

    @property
    def excludes(self) -> str:
        """The nodes that it must not run on, while it is pending."""
        return self.main.excluded if self.state == "PENDING" else ""

    @property
    def lacks_nodes(self) -> bool:
        """Whether it waits for ever, because no other nodes than the excluded ones have what it requests."""
        return bool(self.excludes) and self.main.reason == "BadConstraints"

    @property
    def last_known(self) -> LastKnown | None:
        """The earlier state, if the present one is unknown; for a sweep, of the arrays that had not ended."""
        jobs = [self.job, *(Job.of(one, self.job.route) for one in self.further)]
        found = [known for job in jobs if (known := job.last_known)] if self.state == UNKNOWN else []
        state = outcome([JobState(id="", state=known.state) for known in found])
        return LastKnown(state, min(known.at for known in found)) if found else None

    @property
    def elapsed(self) -> int | None:
        """Seconds that it has run."""
        return whole_seconds(self.main.elapsed)

    @property
    def time_limit(self) -> int | None:
        """Its time limit in seconds."""
        return whole_seconds(self.main.time_limit)

    @property
    def usage(self) -> Usage | None:
        """What it used, once it has ended."""
        return self.main.usage if self.main.ended else None

    @property
    def enough(self) -> Enough | None:
        """The smaller request that would have sufficed, if it COMPLETED."""
        if self.state != "COMPLETED" or self.is_array:
            return None
        return enough(self.usage, self.elapsed, self.time_limit)

    @property
    def code(self) -> int:
        """The exit code of `slurmgen wait`, as in a shell: 128 + signal; 3 if it is not known."""
        if not self.ended or self.state == GONE:
            return 3
        if self.state == "COMPLETED":
            return 0
        status, signal = _status_and_signal(self.main)
        return status or (128 + signal if signal else self.main.other_status or 1)


def to_json(report: Report) -> JobObject:
    """The object that --json prints: always the same keys."""
    job, main, record = report.job, report.main, report.job.record or _NO_RECORD
    tables = tables_of(report)
    found: dict[str, Any] = {
        "id": job.id.number,
        "site": job.route.site,
        "via": job.route.via,
        "cluster": job.id.cluster,
        "bad_nodes": {node: finding.text for node, finding in report.bad_nodes.items()},
        "start": main.start,
        "nodes": main.nodes,
        "tasks": [_task(state, tables) for state in report.states] if report.is_array else [],
        "log": job.log,
        **_codes(main),
    }
    # The others have the same names in a report or in a record.
    for name in JobObject.__struct_fields__:
        if name not in found:
            found[name] = getattr(report if hasattr(Report, name) else record, name)
    return JobObject(**found)


def tables_of(report: Report) -> dict[str, Table]:
    """The table of each array of a sweep, by the id of the array."""
    records = [record for record in (report.job.record, *report.further) if record]
    return {record.id: table for record in records if (table := table_of(record))}


def _task(state: JobState, tables: Mapping[str, Table]) -> TaskObject:
    return TaskObject(
        id=state.id,
        state=state.state,
        **_codes(state),
        reason=_reason(state),
        elapsed=whole_seconds(state.elapsed),
        nodes=state.nodes,
        parameters=parameters_of(state.id, tables),
    )


def _reason(state: JobState) -> str:
    """Slurm's reason why a job waits; after its end that field means something else."""
    return "" if state.ended else state.reason


def _codes(state: JobState) -> dict[str, int | None]:
    """The fields of both objects that tell with what a job or task ended."""
    status, signal = _status_and_signal(state)
    return {
        "exit_code": status,
        "other_exit_code": None if status is None else state.other_status,
        "signal": signal,
    }


def _status_and_signal(state: JobState) -> tuple[int | None, int | None]:
    """The exit code, and the signal that ended the job; None where there is none or it is not known."""
    if not state.ended or state.state == GONE:
        return None, None
    if state.state in _SIGNAL_OF_STATE:
        return None, _SIGNAL_OF_STATE[state.state]
    if not state.exit_code and state.state != "COMPLETED":
        return None, None
    status, signal = state.status_and_signal
    return (None, signal) if signal and signal != _SLURMD_FAILED else (status, None)
