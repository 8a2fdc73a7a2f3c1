"""The rows of all jobs, and when each changed last, so that a tab reads only what is new to it."""

from collections.abc import Iterable, Mapping
from secrets import token_hex

from msgspec import Struct

from slurmgen.web.jobs.rows import Row


class Changes(Struct, frozen=True):
    """What has changed since a version of the table."""

    version: str
    rows: tuple[Row, ...]
    whole: bool
    "Whether the table has to be read again: jobs were removed, or the server was started again."


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
        return Changes(self.version, tuple(self._rows[row] for row in ids), whole)

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
