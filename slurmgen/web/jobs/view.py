"""What a user asks to see of the table: a search, a state, an order, a page. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, structs

from slurmgen.text import visible
from slurmgen.web.jobs.rows import KINDS, Row

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
    """The rows in an order, in which those without a value come last."""
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
