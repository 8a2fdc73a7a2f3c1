"""The board: what is known of all jobs."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from threading import RLock

from msgspec import Struct, structs

from slurmgen.errors import SlurmgenError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.status.job import Job, group_by_route
from slurmgen.status.listing import without_query
from slurmgen.status.query import make_report, recall, unreached
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN
from slurmgen.web.jobs.rows import Known, Row, group_row, ids_of, job_of, job_row, key_of, record_of_job

_LATE = "it has not replied to the last query so far"


class Problem(Struct, frozen=True):
    """Why the present states of the jobs of a site are not known."""

    site: str
    "Empty if it concerns all of them."
    fact: str
    hint: str = ""
    replied: float | None = None
    "When it replied last, in seconds since 1970; None if it has not since the server was started."

    @property
    def since(self) -> str:
        """When it replied last, in the time zone of this machine; empty if it has not."""
        if self.replied is None:
            return ""
        at = datetime.fromtimestamp(self.replied).astimezone()
        return at.strftime(
            "%H:%M:%S" if at.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M:%S"
        )


Changes = tuple[str, tuple[Row, ...], bool]
"""What has changed since a version of the table: the new version, the rows, and whether the table has to be
read again, because jobs were removed or the server was started again."""


class Table:
    """The rows by their identifiers, in the order of submission. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._id, self._count, self._removed = token_hex(4), 0, 0
        self._rows: dict[str, Row] = {}
        self._changed: dict[str, int] = {}
        "The count at which each row changed last."

    @property
    def version(self) -> str:
        """Names the present state, so that later changes can be asked for."""
        return f"{self._id}-{self._count}"

    @property
    def rows(self) -> Mapping[str, Row]:
        """All rows."""
        return self._rows

    def since(self, version: str) -> Changes:
        """The rows that have changed since a version."""
        table, _, count = version.partition("-")
        known = int(count) if count.isdecimal() and len(count) < 19 else -1
        whole = table != self._id or known < self._removed
        ids = [] if whole else [row for row, at in self._changed.items() if at > known]
        return self.version, tuple(self._rows[row] for row in ids), whole

    def count(self) -> None:
        """Begin a new version, also for a change that is not in a row."""
        self._count += 1

    def put(self, rows: Iterable[Row]) -> bool:
        """Take those rows that differ; returns whether there are any."""
        new = {row.id: row for row in rows if self._rows.get(row.id) != row}
        if new:
            self.count()
            self._rows |= new
            self._changed |= dict.fromkeys(new, self._count)
        return bool(new)

    def order(self, ids: Iterable[str]) -> bool:
        """Sort the rows, and drop those that are not named; returns whether there are any."""
        order = dict.fromkeys(ids)
        drops = bool(self._rows.keys() - order.keys())
        if drops:
            self.count()
            self._removed = self._count
        self._rows = {row: self._rows[row] for row in order}
        self._changed = {row: at for row, at in self._changed.items() if row in order}
        return drops


_UNEXPLAINED = "it is not known why it failed"
_SETTLED = 2.0
"Seconds; the coarsest clock of a file system counts single ones."


class Board:
    """The reports of the jobs, and the rows that are made from them.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.now = clock
        self._lock = RLock()
        self._stamp: object = None
        self._reports: dict[str, Report] = {}
        self._members: dict[str, list[str]] = {}
        "The keys of the jobs of each group of several."
        self._table = Table()
        self._replied: dict[Route, float] = {}
        self._problems: dict[Route | None, Problem] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def version(self) -> str:
        """Names the present state, so that later changes can be asked for."""
        return self._table.version

    def rows(self) -> tuple[list[Row], str]:
        """All rows as they are now, in the order of submission, and the version of the board."""
        with self._lock:
            self.read()
            return list(self._table.rows.values()), self.version

    def problems(self) -> list[Problem]:
        """The sites that were not reached, after what concerns all of them."""
        with self._lock:
            return sorted(self._problems.values(), key=lambda problem: problem.site)

    def problem(self, route: Route) -> Problem | None:
        """Why a site was not reached; None if it was."""
        with self._lock:
            return self._problems.get(route)

    @contextmanager
    def listened(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call a function after every change during this block, in the thread that makes the change."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def report(self, key: str) -> Report | None:
        """What is known of one job."""
        return self._reports.get(key)

    def report_of(self, job: Job) -> Report | None:
        """What is known of a job or of one task of it; None if nothing is."""
        record = record_of_job(job)
        whole = self._reports.get(key_of(record))
        if whole is None or str(job.id) == record.id or not whole.states:
            return whole and structs.replace(whole, job=job)
        return make_report(job, [state for state in whole.states if job.id.covers(state.id)])

    def group(self, key: str) -> list[Report]:
        """What is known of the jobs of a group of several; empty for another key."""
        with self._lock:
            return [self._reports[one] for one in self._members.get(key, ()) if one in self._reports]

    def since(self, version: str) -> Changes:
        """The rows that have changed since a version."""
        with self._lock:
            return self._table.since(version)

    def active(self) -> dict[Route, list[Job]]:
        """The jobs of each site that are to be queried: unended, or failed without a reason so far."""
        with self._lock:
            return group_by_route(
                report.job
                for report in self._reports.values()
                if report.job.id.number and (not report.ended or report.remembered == _UNEXPLAINED)
            )

    def read(self) -> None:
        """Read the ledger, if it has changed."""
        with self._lock:
            ledger = Ledger()
            stamp = _stamp(ledger.path)
            if stamp == self._stamp:
                return
            self._take({key_of(record): record for record in ledger.all()})
            self._stamp = stamp

    def put(self, route: Route, reports: Iterable[Report]) -> None:
        """Take what the query of a site found."""
        with self._lock:
            self._replied[route] = self.now()
            recovers = self._problems.pop(route, None) is not None
            self._replace(reports)
            self._mark(route, recovers)

    def wait(self, route: Route, asked: float) -> None:
        """Record that the query started at `asked` is still unanswered."""
        with self._lock:
            if route not in self._problems and self._replied.get(route, 0.0) < asked:
                self._mark(route, self._set_problem(route, _LATE))

    def fail_all(self, error: SlurmgenError | None) -> bool:
        """Set or clear the error that stops all queries; return whether it changed."""
        with self._lock:
            before = self._problems.pop(None, None)
            if error:
                self._problems[None] = Problem("", error.fact, error.hint)
            is_new = self._problems.get(None) != before
            self._count(is_new)
            return is_new

    def fail(self, route: Route, error: SlurmgenError) -> None:
        """Record that a site was not reached. What is known of its jobs stays."""
        with self._lock:
            is_new = self._set_problem(route, error.fact, error.hint)
            jobs = self.active().get(route, [])
            # The error is shown once for the site.
            unknown = (unreached(job, error) for job in jobs if not self._of(job).states)
            self._replace(structs.replace(report, error="") for report in unknown)
            self._mark(route, is_new)

    def _set_problem(self, route: Route, fact: str, hint: str = "") -> bool:
        problem = Problem(route.short_place, fact, hint, self._replied.get(route))
        is_new = self._problems.get(route) != problem
        self._problems[route] = problem
        return is_new

    def _of(self, job: Job) -> Report:
        return self._reports[key_of(record_of_job(job))]

    def _replace(self, reports: Iterable[Report]) -> None:
        found = {key_of(record_of_job(report.job)): report for report in reports}
        found = {key: report for key, report in found.items() if key in self._reports}
        self._reports |= found
        self._make_rows(found)

    def _take(self, records: Mapping[str, Record]) -> None:
        before, self._reports = self._reports, self._of_ledger(records)
        groups, self._members = self._members, groups_of(records)
        moved = {key for name in groups.keys() ^ self._members.keys() for key in groups.get(name, ())}
        moved |= {key for name, keys in self._members.items() if groups.get(name) != keys for key in keys}
        changed = (key for key, report in self._reports.items() if before.get(key) is not report)
        self._make_rows([*changed, *(key for key in moved if key in self._reports)])
        self._order_rows()

    def _of_ledger(self, records: Mapping[str, Record]) -> dict[str, Report]:
        """The reports of the jobs of the ledger: what a query found stays."""
        before = self._reports
        is_same = {key: key in before and before[key].job.record == one for key, one in records.items()}
        jobs = {key: job_of(one) for key, one in records.items() if not is_same[key]}
        known = without_query(list(jobs.values()))
        return {
            key: before[key] if is_same[key] else known.get(jobs[key]) or self._unended(key, jobs[key])
            for key in records
        }

    def _unended(self, key: str, job: Job) -> Report:
        """The report of a job that is new or whose record has changed, and that is still to be queried."""
        before = self._reports.get(key)
        if before and before.states:
            return structs.replace(before, job=job)
        return recall(job, _UNEXPLAINED) or Report(job=job, state=UNKNOWN)

    def _group_of(self, report: Report) -> str:
        group = record_of_job(report.job).part_of
        return group if group in self._members else ""

    def _make_rows(self, keys: Iterable[str]) -> None:
        now, rows = self.now(), self._table.rows
        groups = {key: self._group_of(self._reports[key]) for key in keys}
        made = [job_row(self._known(self._reports[key]), now, rows, group) for key, group in groups.items()]
        several = filter(None, dict.fromkeys(groups.values()))
        made += [group_row(list(map(self._known, self.group(group))), now, rows) for group in several]
        self._notify(self._table.put(made))

    def _known(self, report: Report) -> Known:
        return Known(report, is_old=not report.ended and report.job.route in self._problems)

    def _order_rows(self) -> None:
        reports = self._reports.items()
        ids = (row for key, report in reports for row in ids_of(key, self._group_of(report)))
        self._notify(self._table.order(ids))

    def _mark(self, route: Route, changed: bool) -> None:
        if changed:
            self._make_rows(key_of(record_of_job(job)) for job in self.active().get(route, []))
        self._count(changed)

    def _count(self, changed: bool) -> None:
        if changed:
            self._table.count()
        self._notify(changed)

    def _notify(self, changed: bool) -> None:
        for listener in self._listeners if changed else ():
            listener()


def groups_of(records: Mapping[str, Record]) -> dict[str, list[str]]:
    """The keys of the jobs of each group of several."""
    groups: dict[str, list[str]] = {}
    for key, record in records.items():
        if record.part_of and not record.pending:
            groups.setdefault(record.part_of, []).append(key)
    return {group: keys for group, keys in groups.items() if len(keys) > 1}


def _stamp(path: Path) -> object:
    """Changes whenever the ledger may have. Only SQLite opens the file, as `StateFile` says."""
    try:
        status = path.stat()
    except OSError:  # reading it says why
        return object()
    # A change right after this one may get the same time.
    is_settled = time.time() - status.st_mtime > _SETTLED
    return (status.st_ino, status.st_mtime_ns, status.st_size) if is_settled else object()
