"""The rows of the table of jobs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlencode

from msgspec import Struct, structs
from starlette.exceptions import HTTPException

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.slurm import units
from slurmgen.status.job import Job
from slurmgen.status.listing import reasons
from slurmgen.status.lookup import recorded_route
from slurmgen.status.report import Report
from slurmgen.status.report_text import local_time
from slurmgen.status.sweep import combined, is_sweep
from slurmgen.text import visible

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
    "The key of the job; for a group, of its first job."
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
        return "" if ran is None else units.canonical_time(ran)

    @property
    def limit_text(self) -> str:
        """Its time limit, as Slurm writes it."""
        return units.canonical_time(self.limit) if self.limit else ""

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
    """Row ids of a job; for a group member, the group's row first."""
    return (*([_group_id(group)] if group else []), _job_id(key))


def _job_id(key: str) -> str:
    return f"job-{key}"


def _group_id(group: str) -> str:
    return f"group-{group}"


def job_row(known: Known, now: float, rows: Mapping[str, Row], group: str) -> Row:
    """The row of one job.

    Args:
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


def _repeats(record: Record, group: str, members: int) -> bool:
    is_sweep_or_job = bool(record.tasks) == bool(members) or not group
    return bool(record.request) and not record.pending and is_sweep_or_job


def _gpus(report: Report, record: Record) -> int | None:
    allocated = sum(state.usage.gpus for state in report.states if state.usage)
    asked = allocated or record.asked("gpus")
    return asked if isinstance(asked, int) else None


def key_of(record: Record) -> str:
    """What names a job in an address: its idempotency key; of an old entry without one, its site and id."""
    return record.key or f"{record.site}:{record.id}"


def path_of(key: str) -> str:
    """The path of the page of a job, below the base path."""
    return f"/jobs/{quote(key, safe='')}"


def record_of(key: str) -> Record:
    """The entry of the ledger that an address names.

    Raises:
        HTTPException: there is none.
    """
    site, _, number = key.rpartition(":")
    found = Ledger().find(number, site) if site else [Ledger().of_key(key)]
    record = next(iter(found), None)
    if record is None:
        raise HTTPException(404, "Your records have no such job.")
    return record


def job_of(record: Record) -> Job:
    """The job of an entry, with the route that is recorded."""
    return Job.of(record, recorded_route(record, {}))


def record_of_job(job: Job) -> Record:
    """The entry of a job that `job_of` made."""
    assert job.record is not None  # noqa: S101
    return job.record


PER_PAGE = 200
_COLUMNS: dict[str, Callable[[Row, float], Any]] = {
    "id": lambda row, _: (len(row.number), row.number),
    "name": lambda row, _: row.name.casefold(),
    "site": lambda row, _: row.site,
    "state": lambda row, _: (KINDS.index(row.kind), row.state),
    "gpus": lambda row, _: row.gpus or 0,
    "start": lambda row, _: row.start,
    "time": Row.ran,
    "submitted": lambda row, _: row.submitted,
}
"The value of each column by which rows are sorted, at a time in seconds since 1970."
NEWEST_FIRST = "-submitted"
_MOST_OPEN = 100


class View(Struct, frozen=True):
    """What is to be seen; every value comes from an address."""

    q: str = ""
    site: str = ""
    kind: str = ""
    sort: str = NEWEST_FIRST
    page: int = 1
    opened: tuple[str, ...] = ()
    "The groups whose jobs are shown."

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "View":
        """The view of an address; what is not valid counts as not given."""
        sort, kind, page = query.get("sort", ""), query.get("kind", ""), query.get("page", "")
        return cls(
            q=visible(query.get("q", "").strip()[:200]),
            site=query.get("site", "")[:200],
            kind=kind if kind in KINDS else "",
            sort=sort if sort.removeprefix("-") in _COLUMNS else NEWEST_FIRST,
            page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1,
            opened=tuple(filter(None, query.get("open", "").split(",")))[:_MOST_OPEN],
        )

    def address(self, **changes: Any) -> str:
        """The query of the address of this view with changes."""
        view = structs.replace(self, **changes)
        given = {**structs.asdict(view), "open": ",".join(view.opened)}
        del given["opened"]
        usual = {**structs.asdict(View()), "open": ""}
        return urlencode({key: value for key, value in given.items() if value != usual[key]})

    def sorted_by(self, column: str) -> str:
        """The order after a click on the head of a column; the other way round if it is this one."""
        return f"-{column}" if self.sort == column else column


class Shown(Struct, frozen=True):
    """What one page of the table shows."""

    rows: tuple[Row, ...]
    counts: dict[str, int]
    "How many rows of each kind the search has, on all pages."
    sites: tuple[str, ...]
    found: int
    "How many rows there are on all pages."
    first: int
    "The position of the first row of this page, from 0, and that of the last, from 1."
    last: int
    pages: int


def shown(rows: Sequence[Row], view: View, now: float) -> Shown:
    """The rows of a view, at a time in seconds since 1970.

    A group is one row, and its jobs follow it if it is open.
    """
    top = [row for row in rows if not row.is_member]
    searched = [row for row in top if _matches(row, view)]
    counts = Counter[str](row.kind for row in searched)
    found = [row for row in searched if view.kind in ("", row.kind)]
    ordered = _ordered(found, view.sort, now)
    pages = max(1, -(-len(ordered) // PER_PAGE))
    start = (min(view.page, pages) - 1) * PER_PAGE
    return Shown(
        rows=_with_members(ordered[start : start + PER_PAGE], rows, view.opened),
        counts={kind: counts[kind] for kind in KINDS},
        sites=tuple(sorted({row.site for row in top})),
        found=len(found),
        first=start,
        last=min(start + PER_PAGE, len(ordered)),
        pages=pages,
    )


def _matches(row: Row, view: View) -> bool:
    if view.site and row.site != view.site:
        return False
    text = f"{row.number} {row.name} {row.site} {row.state} {' '.join(row.words)}".casefold()
    return all(word in text for word in view.q.casefold().split())


def _ordered(rows: Sequence[Row], sort: str, now: float) -> list[Row]:
    """Sort rows; rows without a value come last."""
    column, falls = _COLUMNS[sort.removeprefix("-")], sort.startswith("-")
    values = {row.id: column(row, now) for row in rows}
    known = [row for row in rows if values[row.id] not in (None, "")]
    unknown = [row for row in rows if values[row.id] in (None, "")]
    rising = sorted(known, key=lambda row: values[row.id])
    return [*(reversed(rising) if falls else rising), *unknown]


def _with_members(page: Sequence[Row], rows: Sequence[Row], opened: Sequence[str]) -> tuple[Row, ...]:
    members: dict[str, list[Row]] = {key: [] for key in opened}
    for row in rows:
        if row.is_member and row.group in members:
            members[row.group].append(row)
    return tuple(one for row in page for one in (row, *(members.get(row.group, ()) if row.members else ())))
