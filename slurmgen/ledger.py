"""The ledger: which job was submitted where, so that its id alone finds it again.

One SQLite file of yours, `ledger.sqlite` in the state folder (~/.local/state/slurmgen).
It holds no secret. Several slurmgen may write at once: each write is one transaction.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct, ValidationError, convert, structs

from slurmgen.errors import ConfigError

BUSY_TIMEOUT = 10.0
"Seconds to wait for another slurmgen that is writing."

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


class Ledger:
    """The file at `path`, made when first needed, readable by nobody else."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def add(self, record: Record) -> None:
        """Write down a job."""
        row = structs.asdict(record)
        names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
        with self._open() as database:
            database.execute(f"INSERT INTO jobs ({names}) VALUES ({places})", row)  # noqa: S608 (own names)

    def find(self, job_id: str, site: str | None = None) -> tuple[Record, ...]:
        """The jobs of that id, the last submitted at each site, at one site or at all."""
        found = [one for one in self.all() if one.id == job_id and site in (None, one.site)]
        return tuple({one.site: one for one in found}.values())

    def all(self) -> tuple[Record, ...]:
        """Every job, in the order of submission; none if nothing was ever submitted."""
        if not self.path.exists():
            return ()
        names = ", ".join(Record.__struct_fields__)
        with self._open() as database:
            rows = database.execute(f"SELECT {names} FROM jobs ORDER BY number")  # noqa: S608 (own names)
            return tuple(
                convert(dict(zip(Record.__struct_fields__, row, strict=True)), Record) for row in rows
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT)) as database, database:
                database.execute(_SCHEMA)
                yield database
        except (OSError, sqlite3.Error, ValidationError) as error:
            raise ConfigError(
                f"cannot use {self.path}: {error}", "It records your jobs; move it away to begin a new one."
            ) from None


def default_path() -> Path:
    """Where the ledger is: ~/.local/state/slurmgen/ledger.sqlite, or as XDG_STATE_HOME says."""
    from platformdirs import user_state_path

    return user_state_path("slurmgen") / "ledger.sqlite"
