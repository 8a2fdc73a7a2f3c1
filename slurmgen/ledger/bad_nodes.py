"""Bad nodes: which nodes of a site failed a preflight, and for how long new jobs exclude them.

They are in an SQLite file of the user, `bad-nodes.sqlite` in the state folder (~/.local/state/slurmgen).
Each entry is of one report: of a job, or of the user. An entry that has expired or was cleared stays in the
file, so that the same report does not count twice.
"""

import re
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.files import state_folder
from slurmgen.ledger.ledger import StateFile
from slurmgen.text import visible

DAYS = 7.0
"Default of `bad_node_days` in personal.toml."
MOST_EXCLUDED = 20
"Nodes that one script excludes."
LONGEST = 200
"Characters of a finding."
BY_HAND = ""
"Instead of a job: the user reported the node."
NODE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
"The name of one node; also safe in a shell, in a directive and in a list of nodes."

_TABLE = """
CREATE TABLE reports (
    site TEXT NOT NULL,
    twin INTEGER NOT NULL,
    node TEXT NOT NULL,
    job TEXT NOT NULL,
    finding TEXT NOT NULL,
    since TEXT NOT NULL,
    until TEXT NOT NULL,
    cleared INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (site, twin, node, job)
)
"""


class Place(Struct, frozen=True):
    """Whose nodes: a site's, or its twin's, which have the same names."""

    site: str
    twin: bool = False

    def __str__(self) -> str:
        return f"{self.site} twin" if self.twin else self.site


class BadNode(Struct, frozen=True, kw_only=True):
    """One node that jobs exclude."""

    site: str
    twin: bool = False
    node: str
    job: str = BY_HAND
    "The job that reported it."
    finding: str
    "What is wrong with it, in one line."
    checks: tuple[str, ...] = ()
    "The checks that found it; empty if unknown."
    since: str
    "Time of the report, as ISO 8601 in UTC, like `until`."
    until: str

    @property
    def place(self) -> Place:
        """Whose node it is."""
        return Place(self.site, self.twin)

    @property
    def reason(self) -> str:
        """Why and for how long it is excluded, for the comment in a script."""
        return f"{self.finding} ({self.source}), until {self.until[: len('2026-01-31')]}"

    @property
    def source(self) -> str:
        """Where the report comes from."""
        return f"job {self.job}" if self.job else "by hand"


_FIELDS = BadNode.__struct_fields__
_NAMES = ", ".join(_FIELDS)
_VALUES = f"({_NAMES}) VALUES ({', '.join(f':{name}' for name in _FIELDS)})"
_REPORTS = (
    f"SELECT {_NAMES} FROM reports WHERE NOT cleared AND until > ? "  # noqa: S608 (own names)
    "ORDER BY site, twin, since DESC, node"
)
_CLEAR = "UPDATE reports SET cleared = 1 WHERE site = ? AND twin = ? AND node = ? AND job = ?"


class BadNodes(StateFile):
    """The file at `path`. The first write creates it; only its owner may read it.

    Every method raises ConfigError if the file cannot be used.
    """

    migrations = ((_TABLE,), ("ALTER TABLE reports ADD COLUMN checks TEXT NOT NULL DEFAULT ''",))
    name = "the list of bad nodes"
    purpose = "it records bad nodes"
    loss = "your jobs then exclude no bad node until one is reported again"

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path or state_folder() / "bad-nodes.sqlite")

    def add(self, nodes: Iterable[BadNode]) -> None:
        """Record reports. Each report of a job counts once, even after it expired or was cleared."""
        rows = [structs.asdict(node) | {"checks": ",".join(node.checks)} for node in nodes]
        with self._writing() as database:
            for row in rows:
                verb = "INSERT OR IGNORE" if row["job"] else "INSERT OR REPLACE"
                database.execute(f"{verb} INTO reports {_VALUES}", row)

    def current(self, place: Place | None = None, now: datetime | None = None) -> tuple[BadNode, ...]:
        """The nodes that jobs exclude now, of one place or of all, each with its newest report.

        The newest come first.
        """
        newest: dict[tuple[Place, str], BadNode] = {}
        for node in self.reports(place, now):
            newest.setdefault((node.place, node.node), node)
        return tuple(newest.values())

    def reports(self, place: Place | None = None, now: datetime | None = None) -> tuple[BadNode, ...]:
        """All reports that make jobs exclude nodes now; the newest first."""
        with self._reading() as database:
            found = _select(database, as_text(now or datetime.now(UTC))) if database else []
        return tuple(node for node in found if place in (None, node.place))

    def clear(self, reports: Iterable[BadNode]) -> None:
        """Let these reports exclude no node any more."""
        with self._writing() as database:
            database.executemany(_CLEAR, [(one.site, one.twin, one.node, one.job) for one in reports])


def as_text(time: datetime) -> str:
    """A time as the file has it: all have the same zone and length, so that they compare as text."""
    return time.astimezone(UTC).isoformat(timespec="seconds")


def bad_node(
    place: Place,
    node: str,
    finding: str,
    job: str = BY_HAND,
    *,
    checks: tuple[str, ...] = (),
    days: float = DAYS,
    now: datetime | None = None,
) -> BadNode:
    """A report of this moment, which expires after some days."""
    since = now or datetime.now(UTC)
    until = since + timedelta(days=days)
    return BadNode(
        site=place.site,
        twin=place.twin,
        node=node,
        job=job,
        finding=finding,
        checks=checks,
        since=as_text(since),
        until=as_text(until),
    )


def in_one_line(text: str) -> str:
    r"""A finding as it is kept: one short line in which nothing can control a terminal or end a comment.

    >>> print(in_one_line("3 GPUs,\n but the others\x1b have 4"))
    3 GPUs, but the others\x1b have 4
    """
    return visible(" ".join(text.split()))[:LONGEST]


def is_node_name(text: str) -> bool:
    """Whether a text can be the name of one node.

    >>> is_node_name("gpu-12.local"), is_node_name("n[1-3]"), is_node_name("--all")
    (True, False, False)
    """
    return re.fullmatch(NODE_NAME, text) is not None


def _select(database: sqlite3.Connection, now: str) -> list[BadNode]:
    rows = (dict(zip(_FIELDS, row, strict=True)) for row in database.execute(_REPORTS, (now,)))
    return [
        BadNode(**{**row, "twin": bool(row["twin"]), "checks": tuple(filter(None, row["checks"].split(",")))})
        for row in rows
    ]
