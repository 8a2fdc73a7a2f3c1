"""The ledger: which job was submitted where, so that its id alone finds it again.

One SQLite file of yours, `ledger.sqlite` in the state folder (~/.local/state/slurmgen).
It holds no secret. Several slurmgen may write at once: each write is one transaction.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, structs

from slurmgen.errors import ConfigError

BUSY_TIMEOUT = 10.0
"Seconds to wait for another slurmgen that is writing."
FORM = 1
"Of the tables, kept as SQLite's user_version; whoever changes them counts it up."

# Rows are never changed. A cluster whose ids start anew gives two rows; the later one counts.
# Not WAL: home folders are on NFS, where it is not safe (https://sqlite.org/wal.html).
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    cluster TEXT NOT NULL,
    site TEXT NOT NULL,
    via TEXT NOT NULL,
    host TEXT,
    ssh_config TEXT,
    name TEXT NOT NULL,
    folder TEXT NOT NULL,
    output TEXT NOT NULL,
    submitted TEXT NOT NULL
)
"""


class Record(Struct, frozen=True, kw_only=True):
    """One job as it was submitted."""

    id: str
    cluster: str = ""
    site: str
    via: Literal["ssh", "local", "twin"]
    host: str | None = None
    ssh_config: str | None = None
    name: str
    folder: str
    "The submission's folder over there, as a full path."
    output: str
    "The log's name in that folder as Slurm has it, with its %j."
    submitted: str
    "When, as ISO 8601 in UTC."


_FIELDS = Record.__struct_fields__
_NAMES = ", ".join(_FIELDS)
_PLACES = ", ".join(f":{name}" for name in _FIELDS)


class Ledger:
    """The file at `path`, made when first needed, readable by nobody else.

    Every method raises ConfigError if the file cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def check(self) -> None:
        """Make sure that a job can be written down, before there is one."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(f"SELECT {_NAMES} FROM jobs LIMIT 0")  # noqa: S608 (own names)

    def add(self, record: Record) -> None:
        """Write down a job."""
        with self._open() as database:
            database.execute(f"INSERT INTO jobs ({_NAMES}) VALUES ({_PLACES})", structs.asdict(record))  # noqa: S608

    def find(self, job_id: str, site: str | None = None) -> tuple[Record, ...]:
        """The jobs of that id, the last submitted at each site, at one site or at all."""
        found = [one for one in self._records("WHERE id = ?", job_id) if site in (None, one.site)]
        return tuple({one.site: one for one in found}.values())

    def all(self) -> tuple[Record, ...]:
        """Every job, in the order of submission; none if nothing was ever submitted."""
        return self._records("")

    def _records(self, where: str, *values: str) -> tuple[Record, ...]:
        if not self.path.exists():
            return ()
        with self._open() as database:
            rows = database.execute(f"SELECT {_NAMES} FROM jobs {where} ORDER BY number", values)  # noqa: S608
            return tuple(map(_record, rows))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT)) as database, database:
                self._prepare(database)
                yield database
        except (OSError, sqlite3.Error, ValidationError) as error:
            raise ConfigError(
                f"cannot use {self.path}: {error}", "It records your jobs; move it away to begin a new one."
            ) from None

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the table if the file is new; refuse what a newer slurmgen wrote."""
        (form,) = database.execute("PRAGMA user_version").fetchone()
        if form > FORM:
            raise ConfigError(
                f"{self.path} was written by a newer slurmgen (form {form}; this one knows {FORM})",
                "Update slurmgen here too.",
            )
        if form < FORM:
            database.execute(_SCHEMA)
            database.execute(f"PRAGMA user_version = {FORM}")


def default_path() -> Path:
    """Where the ledger is: ~/.local/state/slurmgen/ledger.sqlite, or as XDG_STATE_HOME says."""
    from platformdirs import user_state_path

    return user_state_path("slurmgen") / "ledger.sqlite"


def _record(row: tuple[Any, ...]) -> Record:
    return convert(dict(zip(_FIELDS, row, strict=True)), Record)
