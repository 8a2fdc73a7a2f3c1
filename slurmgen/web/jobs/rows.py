"""The rows of the table: one for each job, and one for each group of jobs. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import DecodeError, Struct, json

from slurmgen.jobs.ledger import Record
from slurmgen.jobs.listing import reasons
from slurmgen.jobs.report import Report
from slurmgen.jobs.report_text import local_time
from slurmgen.jobs.sweep_report import combined, is_sweep
from slurmgen.slurm import durations
from slurmgen.text import visible
from slurmgen.web.jobs.records import key_of, record_of_job

Kind = Literal["running", "pending", "completed", "failed", "cancelled", "unknown"]
KINDS: tuple[Kind, ...] = ("running", "pending", "failed", "cancelled", "completed", "unknown")
_KIND: dict[str, Kind] = {
    "PENDING": "pending",
    "COMPLETED": "completed",
    "CANCELLED": "cancelled",
    "UNKNOWN": "unknown",
    "GONE": "unknown",
}
_MINUTE = len("2026-01-31 12:00")
_JITTER = 5
"Seconds by which the begin of a run may seem to change between two queries."


class Known(Struct, frozen=True):
    """What is known of a job, and whether that may be old, because its site was not reached."""

    report: Report
    is_old: bool = False


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    id: str
    "Its identifier in the page."
    key: str
    "The key of the job, of a group that of the first one."
    number: str
    "The job id; empty while it is not known whether there is a job."
    name: str
    site: str
    state: str
    kind: Kind
    words: tuple[str, ...]
    "Why it waits or failed, as `slurmgen status` prints it."
    gpus: int | None
    start: str
    "In the time zone of the cluster."
    elapsed: int | None
    "Seconds, when it was queried; of a running job, `began` counts."
    began: int | None = None
    "When a running job began, in seconds since 1970 by the clock of this machine, without pauses."
    limit: int | None
    submitted: str
    ended: bool
    is_old: bool = False
    "Whether this is what was known last, because the site was not reached."
    pending: bool = False
    "Whether it is not known whether there is a job."
    repeats: bool = False
    "Whether it can be submitted again from here."
    group: str = ""
    "The key of its group, or of the group that it is; empty for a single job."
    members: int = 0
    "Of a group: how many jobs it has."

    def ran(self, now: float) -> int | None:
        """Seconds that it has run, at a time in seconds since 1970; None if it is not known."""
        return self.elapsed if self.began is None else max(0, round(now) - self.began)

    def elapsed_text(self, now: float) -> str:
        """The time that it has run, as Slurm writes it."""
        ran = self.ran(now)
        return "" if ran is None else durations.canonical(ran)

    @property
    def limit_text(self) -> str:
        """Its time limit, as Slurm writes it."""
        return durations.canonical(self.limit) if self.limit else ""

    @property
    def start_text(self) -> str:
        """When it started or is expected to, to the minute."""
        return self.start[:_MINUTE].replace("T", " ")

    @property
    def submitted_text(self) -> str:
        """When it was submitted, in the time zone of this machine, to the minute."""
        return local_time(self.submitted)[:_MINUTE]

    @property
    def is_member(self) -> bool:
        """Whether it is shown below the row of its group."""
        return bool(self.group) and not self.members


def ids_of(key: str, group: str) -> tuple[str, ...]:
    """The rows of a job: of one in a group also that of the group, which comes first."""
    return (*([_group_id(group)] if group else []), _job_id(key))


def _job_id(key: str) -> str:
    return f"job-{key}"


def _group_id(group: str) -> str:
    return f"group-{group}"


def job_row(known: Known, now: float, rows: Mapping[str, Row], group: str) -> Row:
    """The row of one job.

    Args:
        known: what is known of it.
        now: seconds since 1970.
        rows: the rows so far.
        group: the group below whose row it is shown; empty for none.
    """
    before = rows.get(_job_id(key_of(record_of_job(known.report.job))))
    return _row(known, now, before, group=group)


def group_row(parts: Sequence[Known], now: float, rows: Mapping[str, Row]) -> Row:
    """The row of a sweep, a chain, or other jobs that were submitted together; of a race, its winner's."""
    reports = [part.report for part in parts]
    report = combined([one for one in reports if one.lost_to is None] or reports)
    group = record_of_job(report.job).part_of
    known = Known(report, any(part.is_old for part in parts))
    return _row(known, now, rows.get(_group_id(group)), group=group, members=reports)


def _row(known: Known, now: float, before: Row | None, *, group: str, members: Sequence[Report] = ()) -> Row:
    report, record = known.report, record_of_job(known.report.job)
    counts = _runs(report) and not known.is_old
    key = key_of(record)
    return Row(
        id=_group_id(group) if members else _job_id(key),
        key=key,
        number=report.job.id.number,
        name=report.name,
        site=visible(report.job.route.short_place),
        state=report.state,
        kind=kind_of(report),
        words=_words(report, members),
        gpus=_gpus(report, record),
        start="" if report.state == "PENDING" and report.is_held else report.main.start,
        elapsed=None if counts or report.state == "PENDING" else report.elapsed,
        began=_began(report, now, before) if counts else None,
        limit=report.time_limit,
        submitted=record.submitted,
        ended=report.ended,
        is_old=known.is_old,
        pending=record.pending,
        repeats=_repeats(record, group, len(members)),
        group=group,
        members=len(members),
    )


def kind_of(report: Report) -> Kind:
    """The kind of its state."""
    return _KIND.get(report.state, "failed" if report.ended else "running")


def _words(report: Report, members: Sequence[Report]) -> tuple[str, ...]:
    words = tuple(reasons(report))
    if members and not is_sweep(report):
        counts = Counter(state.state.replace("_", " ").lower() for state in combined(members).states)
        words = (", ".join(f"{number} {state}" for state, number in counts.most_common()), *words)
    return words if report.state != "UNKNOWN" or words else tuple(filter(None, [report.error]))


def _runs(report: Report) -> bool:
    return report.state == "RUNNING" and report.elapsed is not None


def _began(report: Report, now: float, before: Row | None) -> int:
    """When a running job began; the same as before, if it only seems to have changed."""
    began = round(now - (report.elapsed or 0))
    if before and before.began and abs(before.began - began) <= _JITTER:
        return before.began
    return began


class _Request(Struct, frozen=True):
    gpus: int | None = None


class _Asked(Struct, frozen=True):
    request: _Request = _Request()


def _repeats(record: Record, group: str, members: int) -> bool:
    """Whether the line is a job or a whole sweep, and its request is recorded."""
    is_sweep_or_job = bool(record.tasks) == bool(members) or not group
    return bool(record.request) and not record.pending and is_sweep_or_job


def _gpus(report: Report, record: Record) -> int | None:
    """The GPUs that it was allocated, else those that it asked for; None if neither is known."""
    allocated = sum(state.usage.gpus for state in report.states if state.usage)
    if allocated:
        return allocated
    try:
        return json.decode(record.request or "{}", type=_Asked).request.gpus
    except DecodeError:
        return None
