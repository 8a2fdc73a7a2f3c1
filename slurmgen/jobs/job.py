"""Job: an id, the route to its cluster, and its record in the ledger if slurmgen submitted it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.jobs import final_states
from slurmgen.jobs.failure import Why
from slurmgen.jobs.final_states import LastKnown
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.log_paths import log_path
from slurmgen.jobs.requeued import Requeued
from slurmgen.jobs.segments import segments_of
from slurmgen.jobs.struct_text import from_text
from slurmgen.jobs.sweep_table import run_folder
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import Identity, JobId
from slurmgen.slurm.replies import JobState
from slurmgen.sweep import RUN_LOG

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
        return final_states.from_text(self.record.final, self.id) if self.record else ()

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
