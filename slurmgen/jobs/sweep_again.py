"""Running some tasks of a sweep again, and the results of a sweep of which some tasks ran again."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.lookup import is_id
from slurmgen.jobs.recorded_request import resubmits
from slurmgen.jobs.report import Report, tables_of
from slurmgen.jobs.status import query_and_save
from slurmgen.jobs.sweep_report import FAILED, joined
from slurmgen.jobs.sweep_report import tasks as tasks_of
from slurmgen.jobs.sweep_table import Selection, check_parameters, chosen, selection, table_of
from slurmgen.remote.transport import Transport


class Target(Struct, frozen=True):
    """What the user names to be submitted again."""

    job: str
    "An id or a name."
    task: int | None = None
    "A task of that array."
    selected: Selection | None = None
    "The parameters of some tasks."

    @property
    def names_tasks(self) -> bool:
        """Whether only some tasks are meant."""
        return self.task is not None or self.selected is not None


def target_of(name: str) -> Target:
    """The job and the tasks that a name means, such as `12_3` or `train[lr=1e-3]`.

    Raises:
        RequestError: the brackets do not contain parameters.
    """
    if asked := selection(name):
        return Target(asked.job, selected=asked)
    array, _, task = name.partition("_")
    if is_id(name) and task and any(record.tasks for record in Ledger().find(array)):
        return Target(array, int(task))
    return Target(name)


def arrays_of_record(record: Record) -> tuple[Record, ...]:
    """The records of all arrays of a sweep.

    Raises:
        RequestError: the job is not a sweep.
    """
    if not record.tasks:
        raise RequestError(f"job {record.id} is not a sweep", "Only a sweep has tasks to run again.")
    return Ledger().group(record)


def named_tasks(record: Record, target: Target) -> tuple[int, ...]:
    """The numbers, in the whole sweep, of the tasks that the user names.

    Raises:
        RequestError: there are none.
    """
    records = arrays_of_record(record)
    if target.selected is None:
        table = table_of(record)
        if table is None or target.task not in table.tasks:
            raise RequestError(f"the sweep {record.id} has no task {target.task}", "Name another.")
        return (table.first + int(target.task or 0),)
    found = {_first(one) + task for one in records for task, _ in chosen(one, target.selected.parameters)}
    if not found:
        check_parameters(records, target.selected)
    return tuple(sorted(found))


def failed_tasks(report: Report) -> tuple[int, ...]:
    """The numbers, in the whole sweep, of the tasks that failed, without those that were cancelled.

    Args:
        report: of all arrays of the sweep.

    Raises:
        RequestError: no task has failed.
    """
    found = [
        table.first + index for _, table, index, state in tasks_of(report) if state and state.state in FAILED
    ]
    if not found:
        unknown = sum(map(len, (table.tasks for table in tables_of(report).values()))) - len(report.states)
        more = f", but Slurm does not list {unknown} of them" if unknown > 0 else ""
        raise RequestError(
            f"no task of {report.name} has failed{more}",
            f"`slurmgen status {report.job.id} --tasks` lists them; {report.name}[NAME=VALUE] names some.",
        )
    return tuple(sorted(found))


def tasks_that_failed(transport: Transport, job: Job) -> tuple[int, ...]:
    """The numbers of the tasks of a sweep that have failed, as Slurm reports them now.

    Args:
        transport: the connection to the site of the sweep.
        job: one array of the sweep.

    Raises:
        RequestError: no task has failed, or the job is not a sweep.
        CommandFailed: Slurm did not reply.
    """
    arrays = _jobs(arrays_of_record(job.record), job) if job.record else [job]
    (report,) = joined(query_and_save(transport, arrays, explain=False))
    return failed_tasks(report)


def with_earlier(arrays: Sequence[Job]) -> list[Job]:
    """The arrays of a sweep, and before them those at the same site that they run again in part."""
    ledger, first = Ledger(), arrays[0].record
    earlier: list[Job] = []
    seen = {first.key} if first else set()
    while first and (key := resubmits(first)) and key not in seen:
        seen.add(key)
        first = ledger.of_key(key)
        if first and first.tasks and first.site == arrays[0].route.site:
            earlier = [*_jobs(ledger.group(first), arrays[0]), *earlier]
    return [*earlier, *arrays]


def _jobs(records: Iterable[Record], like: Job) -> list[Job]:
    return [Job.of(record, like.route) for record in records]


def _first(record: Record) -> int:
    table = table_of(record)
    return table.first if table else 0
