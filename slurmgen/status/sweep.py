"""The reports of a sweep: all its arrays as one, and its tasks by state. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import structs

from slurmgen.slurm.replies import ENDED, JobState
from slurmgen.status.failure import NEVER_SATISFIED
from slurmgen.status.job import Table
from slurmgen.status.report import Report, tables_of
from slurmgen.status.slurm import UNKNOWN, outcome
from slurmgen.text import counted

FAILED = ENDED - {"COMPLETED", "CANCELLED", "REVOKED"}
"The states of tasks that failed; those that were cancelled did not."
_ORDER = ("COMPLETED", "FAILED", "RUNNING", "PENDING")
"The states that come first in a line."
UNLISTED = "not listed"
"The state of a task that Slurm does not list, mostly because it has forgotten it."


def joined(reports: Sequence[Report]) -> list[Report]:
    """Merge the reports of a sweep's arrays into one."""
    groups: dict[str, list[Report]] = {}
    for position, report in enumerate(reports):
        sweep = report.job.record if is_sweep(report) else None
        key = f"{sweep.part_of} {sweep.site}" if sweep and sweep.part_of else f"{position}"
        groups.setdefault(key, []).append(report)
    return [combined(group) for group in groups.values()]


def combined(group: Sequence[Report]) -> Report:
    """Merge the reports of several jobs into the first one, which has ended when all have."""
    first, *others = group
    if not others:
        return first
    return structs.replace(
        first,
        states=tuple(state for report in group for state in _states(report)),
        state=_state(group),
        why=next((report.why for report in group if report.why), None),
        error=next((report.error for report in group if report.error), ""),
        bad_nodes={node: found for report in group for node, found in report.bad_nodes.items()},
        further=tuple(report.job.record for report in others if report.job.record),
    )


def _state(group: Sequence[Report]) -> str:
    """The state of a job that has not ended, or else of one that is not COMPLETED."""
    decisive = [report for report in group if not report.ended] or group
    return outcome([JobState(id=report.job.id.number, state=report.state) for report in decisive])


def _states(report: Report) -> tuple[JobState, ...]:
    """The states of a job, with one for a job that Slurm does not list although it may still run."""
    if report.states or report.ended:
        return report.states
    return (JobState(id=report.job.id.number, state=report.state),)


def is_sweep(report: Report) -> bool:
    """Whether a report is of a whole sweep."""
    record = report.job.record
    return record is not None and bool(record.tasks) and report.job.id.number == record.id


def tally(report: Report) -> str:
    """The tasks of a sweep by state, such as `38 completed, 2 failed, 60 running, 900 pending`."""
    listed = [state for state in report.states if state.state != UNKNOWN]
    counts = Counter(state.state for state in listed)
    total = sum(len(table.tasks) for table in tables_of(report).values())
    ordered = [*(state for state in _ORDER if state in counts), *sorted(counts.keys() - set(_ORDER))]
    parts = [f"{counts[state]} {state.replace('_', ' ').lower()}" for state in ordered]
    missing = total - len(listed)
    return ", ".join([*parts, *([f"{missing} {UNLISTED}"] if missing > 0 else [])])


def cause(report: Report) -> str:
    """Why a job failed, in words; empty if it is not known.

    Of a sweep, how many tasks failed, and why the first of them did; `tally` counts the cancelled ones.
    """
    if report.why is None or not is_sweep(report) or report.why == NEVER_SATISFIED:
        return report.why.what if report.why else ""
    failed = sum(state.state in FAILED for state in report.states)
    if not failed:
        return ""
    if len(report.states) == 1:
        return report.why.what
    whose = ": " if failed == 1 else "; of the first: "
    return f"{failed} of {counted(len(report.states), 'task')} failed{whose}{report.why.what}"


def tasks(report: Report) -> Iterator[tuple[str, Table, int, JobState | None]]:
    """Each task of a sweep: its id, the table of its array, its index there, and its state if listed."""
    states = {state.id: state for state in report.states}
    for array, table in tables_of(report).items():
        for index in table.tasks:
            yield f"{array}_{index}", table, index, states.get(f"{array}_{index}")
