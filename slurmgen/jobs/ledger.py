"""The ledger: which job was submitted where, so that its id alone finds it again.

One SQLite file of yours, `ledger.sqlite` in the state folder (~/.local/state/slurmgen).
It holds no secret. Several slurmgen may write at once: each write is one transaction.

An entry is made before anything is sent, with a key and no job; it is *settled* when the job's id
is known. Until then the same command takes the same key again, and so finds its job.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, structs

from slurmgen.errors import ConfigError
from slurmgen.paths import make_private, require_private, state_folder

BUSY_TIMEOUT = 10.0
"Seconds to wait for another slurmgen that is writing."
FORM = 5
"Version of the tables, kept as SQLite's user_version; whoever changes them counts it up."

# A cluster whose ids start anew gives two rows; the later one counts.
# Not WAL: home folders are on NFS, where it is not safe (https://sqlite.org/wal.html).
_TABLE = """
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
_FORMS = (
    (_TABLE,),
    (
        "ALTER TABLE jobs ADD COLUMN [key] TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN fingerprint TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN state TEXT NOT NULL DEFAULT 'submitted'",
        "ALTER TABLE jobs ADD COLUMN snapshot TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN [commit] TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN dirty INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE jobs ADD COLUMN ssh_client TEXT NOT NULL DEFAULT 'paramiko'",
        "ALTER TABLE jobs ADD COLUMN claims INTEGER NOT NULL DEFAULT 1",
        "CREATE UNIQUE INDEX one_a_key ON jobs ([key]) WHERE [key] != ''",
    ),
    ("ALTER TABLE jobs ADD COLUMN final TEXT NOT NULL DEFAULT ''",),
    (
        "ALTER TABLE jobs ADD COLUMN why TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN command TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN directory TEXT NOT NULL DEFAULT ''",
    ),
    ("ALTER TABLE jobs ADD COLUMN stderr TEXT NOT NULL DEFAULT ''",),
)
"What leads to each form from the one before it."


class Record(Struct, frozen=True, kw_only=True):
    """One job as it was submitted, or as it is being submitted."""

    id: str
    "Nothing, while it is pending."
    cluster: str = ""
    "While pending, the clusters that the script names."
    site: str
    via: Literal["ssh", "local", "twin"]
    host: str | None = None
    ssh_config: str | None = None
    ssh_client: Literal["paramiko", "openssh"] = "paramiko"
    name: str
    folder: str
    "The submission's folder over there, as a full path; while pending, as it was asked for."
    output: str
    "The log's name in that folder as Slurm has it, with its %j."
    submitted: str
    "When, as ISO 8601 in UTC."
    key: str = ""
    "Names the submission here, over there, and in the job's comment; nothing before slurmgen had keys."
    fingerprint: str = ""
    "The same for the same command; a hash."
    state: Literal["pending", "submitted"] = "submitted"
    snapshot: str = ""
    "The hash of the project's content."
    commit: str = ""
    "Of git, where the project is in a repository."
    dirty: bool = False
    "Whether the project differed from that commit."
    final: str = ""
    "How it ended, once that was seen, in the form of `slurmgen.jobs.final_states`."
    why: str = ""
    "Why it failed, once that was seen, in the form of `slurmgen.jobs.final_states`."
    command: str = ""
    "The command line that submitted it, without the values of --env."
    directory: str = ""
    "The folder where that was typed."
    stderr: str = ""
    "The value of --error, if stderr has a file of its own; `output` is then that of stdout alone."

    @property
    def pending(self) -> bool:
        """Whether it is not known that there is a job; the same `submit` finds out."""
        return self.state == "pending"


_FIELDS = Record.__struct_fields__
# In brackets, which SQLite never takes for a text; `key` and `commit` are words of SQL.
_NAMES = ", ".join(f"[{name}]" for name in _FIELDS)
_PLACES = ", ".join(f":{name}" for name in _FIELDS)
_INSERT = f"INSERT INTO jobs ({_NAMES}) VALUES ({_PLACES})"  # noqa: S608 (own names)
_DROP = "DELETE FROM jobs WHERE state = 'pending' AND [key] = ?"
_REMEMBER = "UPDATE jobs SET final = ?, why = ? WHERE id = ? AND site = ? AND submitted = ? AND [key] = ?"
_SETTLE = f"""{_INSERT} ON CONFLICT ([key]) WHERE [key] != '' DO UPDATE SET """ + ", ".join(
    f"[{name}] = excluded.[{name}]" for name in _FIELDS
)


class Ledger:
    """The file at `path`, made when first needed, readable by nobody else.

    Every method raises ConfigError if the file cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def check(self) -> None:
        """Make sure that a job can be written down, before there is one."""
        with self._writing() as database:
            database.execute(f"SELECT {_NAMES} FROM jobs LIMIT 0")  # noqa: S608 (own names)

    def claim(self, record: Record, *, again: bool = False) -> Record:
        """The pending entry of the same command, or `record` as a new one.

        One transaction, so that of two terminals at once the second gets the first one's key.

        Args:
            record: what to write down if there is none.
            again: make a new one all the same.
        """
        with self._writing() as database:
            found = _select(database, "WHERE state = 'pending' AND fingerprint = ?", record.fingerprint)
            if found and not again:
                database.execute("UPDATE jobs SET claims = claims + 1 WHERE [key] = ?", (found[-1].key,))
                return found[-1]
            database.execute(_INSERT, structs.asdict(record))
            return record

    def settle(self, record: Record) -> None:
        """Write down which job the entry of that key is, even if another terminal dropped it."""
        with self._writing() as database:
            database.execute(_SETTLE, structs.asdict(record))

    def drop(self, key: str) -> None:
        """Forget an entry whose key will never have a job."""
        with self._writing() as database:
            database.execute(_DROP, (key,))

    def release(self, key: str) -> None:
        """Forget an entry for which its claimer has made no job, unless somebody else claimed it too."""
        with self._writing() as database:
            database.execute(f"{_DROP} AND claims = 1", (key,))

    def add(self, record: Record) -> None:
        """Write down a job."""
        with self._writing() as database:
            database.execute(_INSERT, structs.asdict(record))

    def remember(self, ends: Mapping[Record, tuple[str, str]]) -> None:
        """Write down how jobs ended and why they failed; nothing of one that came back."""
        rows = [(*end, one.id, one.site, one.submitted, one.key) for one, end in ends.items()]
        with self._writing() as database:
            database.executemany(_REMEMBER, rows)

    def find(self, job_id: str, site: str | None = None) -> tuple[Record, ...]:
        """The jobs of that id, the last submitted at each site, at one site or at all."""
        found = [one for one in self._records("WHERE id = ?", job_id) if site in (None, one.site)]
        return tuple({one.site: one for one in found}.values())

    def unsettled(self, name: str, site: str | None = None) -> tuple[Record, ...]:
        """The pending entries of that key, or of that name, at one site or at all."""
        found = self._records("WHERE state = 'pending' AND ([key] = ? OR name = ?)", name, name)
        return tuple(one for one in found if site in (None, one.site))

    def all(self) -> tuple[Record, ...]:
        """Every entry in the order of submission, the pending ones too; none if there never was one."""
        return self._records("")

    def _records(self, where: str, *values: str) -> tuple[Record, ...]:
        if not self.path.exists():
            return ()
        with self._open() as database:
            return _select(database, where, *values)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, begun as a writer: two that both read first could not both write."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            make_private(self.path.parent)
            if not self.path.exists():
                _make(self.path)
            require_private(self.path)
            # Closing rolls back what was not committed.
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)) as database:
                self._prepare(database)
                yield database
        except (OSError, sqlite3.Error, ValidationError) as error:
            raise ConfigError(
                f"cannot use {self.path}: {error}", "It records your jobs; move it away to begin a new one."
            ) from None

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Bring the file to our form, losing nothing; refuse what a newer slurmgen wrote."""
        if (form := _form(database)) > FORM:
            raise ConfigError(
                f"{self.path} was written by a newer slurmgen (form {form}; this one knows {FORM})",
                "Update slurmgen here too.",
            )
        if form < FORM:
            database.execute("BEGIN IMMEDIATE")
            for steps in _FORMS[_form(database) :]:  # another slurmgen may have been faster
                for step in steps:
                    database.execute(step)
            database.execute(f"PRAGMA user_version = {FORM}")
            database.execute("COMMIT")


def default_path() -> Path:
    """Where the ledger is: ~/.local/state/slurmgen/ledger.sqlite, or as XDG_STATE_HOME says."""
    return state_folder() / "ledger.sqlite"


def _make(path: Path) -> None:
    """An empty file under its name at one stroke, for its owner alone.

    It is never opened under that name but by SQLite: closing it again would take away the locks of
    every other thread (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    new = path.with_name(f"{path.name}.{token_hex(8)}")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        os.link(new, path)
    except FileExistsError:  # another was faster
        pass
    finally:
        new.unlink()


def _form(database: sqlite3.Connection) -> int:
    form: int = database.execute("PRAGMA user_version").fetchone()[0]
    return form


def _select(database: sqlite3.Connection, where: str, *values: str) -> tuple[Record, ...]:
    rows = database.execute(f"SELECT {_NAMES} FROM jobs {where} ORDER BY submitted, number", values)  # noqa: S608
    return tuple(map(_record, rows))


def _record(row: tuple[Any, ...]) -> Record:
    # Not strict: SQLite has no truth values.
    return convert(dict(zip(_FIELDS, row, strict=True)), Record, strict=False)
