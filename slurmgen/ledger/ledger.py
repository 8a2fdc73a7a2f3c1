"""The ledger: the submissions of this user, in a database that several processes share."""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import uniform
from secrets import token_hex
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import DecodeError, Struct, ValidationError, convert, json, structs

from slurmgen.errors import ConfigError
from slurmgen.files import make_private, require_private, state_folder

# After a cluster resets its job ids, an id may have two rows; the later one counts.
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
MIGRATIONS = (
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
    ("ALTER TABLE jobs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",),
    (
        "ALTER TABLE jobs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE jobs ADD COLUMN requeued TEXT NOT NULL DEFAULT ''",
    ),
    (
        "ALTER TABLE jobs ADD COLUMN request TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN part_of TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN tasks TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX of_an_id ON jobs (id)",
        "CREATE INDEX of_a_name ON jobs (name, submitted)",
        "CREATE INDEX of_a_group ON jobs (part_of) WHERE part_of != ''",
    ),
    (
        "CREATE INDEX of_a_time ON jobs (submitted, number)",
        "CREATE INDEX of_a_site ON jobs (site, submitted, number)",
        "CREATE INDEX of_a_name_at_a_site ON jobs (site, name, submitted, number)",
        "CREATE INDEX unfinished ON jobs (submitted) WHERE final = ''",
        "CREATE INDEX of_a_command ON jobs (fingerprint) WHERE state = 'pending'",
    ),
    (
        """
        CREATE TABLE IF NOT EXISTS races (
            [key] TEXT PRIMARY KEY,
            command TEXT NOT NULL,
            chosen TEXT NOT NULL DEFAULT '',
            over INTEGER NOT NULL DEFAULT 0
        )
        """,  # slurmgen.ledger.races describes the columns
        "CREATE INDEX IF NOT EXISTS not_over ON races (command) WHERE over = 0",
    ),
    ("ALTER TABLE jobs ADD COLUMN seen TEXT NOT NULL DEFAULT ''",),
)

READ_PATIENCE, PATIENCE, BRIEFLY = 20.0, 60.0, 5.0
"""Seconds to wait for other processes: to read, to write, and to write what a later command finds again.

Writers do not queue, a slow disk takes a second for each, and a job that was submitted has to be recorded.
"""
SAY_AFTER = 3.0
"Seconds after which a command says what it waits for."
_TRY = 0.2
"Seconds of one wait in SQLite, which ^C does not end."
_SPACE = "Free space there, or in your quota (`df -h {folder}`, `quota`), then repeat the command."
_RIGHTS = (
    "Let yourself write to it (`chmod u+rw {path}`, `chmod u+rwx {folder}`; a file system may be mounted "
    "read-only), then repeat the command."
)
_KEEP = "Leave it where it is: {purpose}. "
_ADVICE = {
    "FULL": _SPACE,
    "IOERR": f"{_KEEP}Check its disk, and your quota (`df -h {{folder}}`, `quota`), then repeat the command.",
    "READONLY": _RIGHTS,
    "CANTOPEN": _RIGHTS,
    "PERM": _RIGHTS,
    "CORRUPT": f"{_KEEP}Restore it from a backup, or repair a copy of it with `sqlite3 COPY .recover`.",
    "NOTADB": "Restore it from a backup. If there is none, move it away to start a new one; but {loss}.",
}
"What to do, by SQLite's name of the error; only the last one may lose something, and says so."
_ERRNO = {
    errno.ENOSPC: "FULL",
    errno.EDQUOT: "FULL",
    errno.EACCES: "READONLY",
    errno.EPERM: "READONLY",
    errno.EROFS: "READONLY",
}
_OTHER = f"{_KEEP}Correct the cause, or restore it from a backup."


class StateFile:
    """The file at `path`. The first write creates it; only its owner may read it.

    It is not in WAL mode: home folders are on NFS, where that is not safe (https://sqlite.org/wal.html).
    """

    migrations: ClassVar[tuple[tuple[str, ...], ...]]
    "The statements that lead to each schema version from the one before. SQLite keeps it as user_version."
    name: ClassVar[str]
    "What the file is called."
    purpose: ClassVar[str]
    "What the file is for, as a part of a hint."
    loss: ClassVar[str]
    "What a new file does not know, as a part of a hint."

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _writing(self, *, briefly: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction that locks at its start: of two that read first, one could not write."""
        with self._transaction("BEGIN IMMEDIATE", BRIEFLY if briefly else PATIENCE) as database:
            yield database

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A view that no other process changes; None if there is no file yet."""
        try:
            is_new = not self._exists()
        except OSError as error:
            raise self._explained(error) from None
        if is_new:
            yield None
            return
        with self._transaction("BEGIN", READ_PATIENCE) as database:
            yield database

    @contextmanager
    def _transaction(self, begin: str, patience: float) -> Iterator[sqlite3.Connection]:
        try:
            make_private(self.path.parent)
            if not self._exists():
                self._make()
            require_private(self.path)
            # Closing rolls an open transaction back.
            with closing(_Patient(self, self.path, patience)) as waiting:
                self._prepare(waiting, begin)
                yield waiting.database
                waiting.run("COMMIT")
        except (OSError, sqlite3.Error, ValidationError) as error:
            raise self._explained(error) from None

    def _exists(self) -> bool:
        """Whether there is a file.

        Raises:
            ConfigError: its content is lost, which SQLite would take for a new file: it discards the journal
                beside an empty file, and applies the one of a lost file to a new one.
        """
        journals = (self.path.with_name(self.path.name + end) for end in ("-journal", "-wal"))
        journal = next((path for path in journals if _size(path)), None)
        size = _size(self.path)
        if size or (size is None and journal is None):
            return size is not None
        fact = f"{self.path} is {'gone' if size is None else 'empty'}"
        beside = f", but {journal.name} beside it shows that it was in use" if journal else ""
        away = " and ".join(path.name for path in (self.path if size == 0 else None, journal) if path)
        raise ConfigError(
            f"{fact}{beside}: {self.name} is lost",
            f"Restore it from a backup. If there is none, move {away} away to start a new one; "
            f"but {self.loss}.",
        )

    def _prepare(self, waiting: "_Patient", begin: str) -> None:
        """Begin a transaction, and migrate all entries to the current schema; refuse a newer one."""
        # SQLite's default may lose the last transaction if the power fails right after it.
        waiting.run("PRAGMA synchronous = EXTRA")
        waiting.run(begin)
        newest = len(self.migrations)
        if (version := waiting.version()) > newest:
            raise ConfigError(
                f"{self.path} was written by a newer slurmgen "
                f"(schema version {version}; this one supports {newest})",
                "Update slurmgen on this machine too.",
            )
        if version < newest and begin == "BEGIN":
            waiting.run("ROLLBACK")
            waiting.run("BEGIN IMMEDIATE")
            version = waiting.version()  # another process may have migrated
        for statements in self.migrations[version:]:
            for statement in statements:
                waiting.database.execute(statement)
        if version < newest:
            waiting.database.execute(f"PRAGMA user_version = {newest}")

    def _make(self) -> None:
        """Create the file with its tables atomically, readable only by its owner: it is never empty.

        Only SQLite opens the file under its final name: closing another descriptor would release the locks
        of all other threads (https://sqlite.org/howtocorrupt.html, section 2.2).
        """
        new = self.path.with_name(f"{self.path.name}.{token_hex(8)}")
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(_Patient(self, new, 0)) as alone:
                self._prepare(alone, "BEGIN IMMEDIATE")
                alone.run("COMMIT")
            with suppress(FileExistsError):  # another process was faster
                os.link(new, self.path)
        finally:
            for path in (new, new.with_name(f"{new.name}-journal")):
                path.unlink(missing_ok=True)

    def _explained(self, error: Exception) -> ConfigError:
        """An error of SQLite or of the file system, with a next step that loses nothing."""
        fact = f"cannot use {self.path}: {error}"
        kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").partition("_")[0]
        if kind in _BUSY:
            return ConfigError(
                f"{fact} by {_holder(self.path)}", "Wait until that has ended, then repeat the command."
            )
        kind = kind or _ERRNO.get(getattr(error, "errno", 0) or 0, "")
        words = {"path": self.path, "folder": self.path.parent, "purpose": self.purpose, "loss": self.loss}
        return ConfigError(fact, _ADVICE.get(kind, _OTHER).format(**words))


_BUSY = {"BUSY", "LOCKED", "PROTOCOL"}


class _Patient:
    """A connection that waits for other processes, says so, and ends on ^C.

    A wait of SQLite itself is silent, and Python handles no signal before it ends.
    """

    def __init__(self, file: StateFile, path: Path, patience: float) -> None:
        self.database = sqlite3.connect(path, timeout=_TRY, isolation_level=None)
        self._file, self._began, self._patience = file, time.monotonic(), patience
        self._says = patience > SAY_AFTER

    def run(self, statement: str) -> sqlite3.Cursor:
        """Run a statement that takes a lock, when the lock can be had."""
        while True:
            try:
                return self.database.execute(statement)
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - self._began
                if not _is_busy(error) or waited > self._patience:
                    raise
                self._say(waited)
            time.sleep(uniform(0, _TRY / 4))  # noqa: S311 (SQLite does not wait for the rollback of a journal)

    def version(self) -> int:
        """The schema version. Reading it locks the file against changes until the transaction ends."""
        version: int = self.run("PRAGMA user_version").fetchone()[0]
        return version

    def close(self) -> None:
        """Roll an open transaction back, and release the locks."""
        self.database.close()

    def _say(self, waited: float) -> None:
        if self._says and waited > SAY_AFTER:
            from logging import getLogger  # 8 ms; without a handler, as in a command, it prints to stderr

            user = _holder(self._file.path)
            getLogger(__name__).warning("waiting for %s, which %s uses", self._file.name, user)
            self._says = False


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorname.removeprefix("SQLITE_").partition("_")[0] in _BUSY


def _size(path: Path) -> int | None:
    """The size of a file; None if there is none. A link to nothing is an error: its disk may be away."""
    try:
        status = path.lstat()  # one call: another process may remove its journal at any moment
    except FileNotFoundError:
        return None
    return path.stat().st_size if stat.S_ISLNK(status.st_mode) else status.st_size


def _holder(path: Path) -> str:
    """The process that has locked a file, as far as Linux knows it.

    /proc/locks lists those of this machine alone: a home folder may be on NFS.
    """
    other = "another slurmgen"
    with suppress(OSError, ValueError):
        status = path.stat()
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        # Such as `1: POSIX  ADVISORY  WRITE 4711 fe:00:2148385 1073741824 1073742335`.
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        pids = [(lock[3] != "WRITE", int(lock[4])) for lock in locks if lock[1] != "->" and lock[5] == place]
        pid = next((pid for _, pid in sorted(pids) if pid not in (0, os.getpid())), None)
        return f"{other} (process {pid})" if pid else other
    return other


class _Asked(Struct, frozen=True):
    request: dict[str, Any] = {}


class Record(Struct, frozen=True, kw_only=True):
    """One job as it was submitted, or as it is being submitted."""

    id: str
    "Empty while the entry is pending."
    cluster: str = ""
    "While the entry is pending, the clusters that the script names."
    site: str
    via: Literal["ssh", "local", "twin"]
    host: str | None = None
    ssh_config: str | None = None
    ssh_client: Literal["paramiko", "openssh"] = "paramiko"
    name: str
    folder: str
    "Absolute path of the run folder on the cluster; while the entry is pending, as it was requested."
    output: str
    "Name of the log in that folder, with Slurm's patterns such as %j."
    submitted: str
    "Time of the submission, as ISO 8601 in UTC."
    key: str = ""
    "Idempotency key of the submission, also on the cluster and in the job's comment; empty in old entries."
    fingerprint: str = ""
    "A hash, the same for the same command."
    state: Literal["pending", "submitted"] = "submitted"
    snapshot: str = ""
    "Hash of the project's content."
    commit: str = ""
    "Git commit, if the project is in a repository."
    dirty: bool = False
    "Whether the project differed from that commit."
    final: str = ""
    "How the job ended, once it was seen, as `slurmgen.status.job` writes it."
    why: str = ""
    "Why the job failed, once it was seen, as `slurmgen.status.job` writes it."
    command: str = ""
    "The command line that submitted it, without the values of --env."
    directory: str = ""
    "Working directory of that command."
    stderr: str = ""
    "The value of --error, if stderr has a file of its own; `output` then has stdout alone."
    retries: bool = False
    "Whether it leaves bad nodes and runs again, so that it may report some even if it succeeds."
    requeue: bool = False
    "Whether it was submitted with --requeue."
    requeued: str = ""
    "Its last unfinished run, once it was seen, as `slurmgen.status.segments` writes it."
    request: str = ""
    "What was asked for, as JSON, so that it can be asked for again; without the values of secrets."
    part_of: str = ""
    "The key that all jobs of one sweep, chain, graph or race share; empty for a single job."
    tasks: str = ""
    "The parameters of each task of a sweep, as JSON."
    seen: str = ""
    "Its last state before its end, as `slurmgen.status.job.LastKnown`."

    @property
    def pending(self) -> bool:
        """Whether it is unknown if there is a job; repeating the `submit` finds out."""
        return self.state == "pending"

    def asked(self, field: str) -> Any:
        """The value of a field of the request, whatever version of slurmgen recorded it; None without one."""
        asked = from_text(self.request, _Asked)
        return asked.request.get(field) if asked else None


_FIELDS = Record.__struct_fields__
# In brackets, because `key` and `commit` are keywords of SQL, and SQLite may read "..." as a string.
_NAMES = ", ".join(f"[{name}]" for name in _FIELDS)
_PLACES = ", ".join(f":{name}" for name in _FIELDS)
INSERT = f"INSERT INTO jobs ({_NAMES}) VALUES ({_PLACES})"  # noqa: S608 (own names)
_DROP = "DELETE FROM jobs WHERE state = 'pending' AND [key] != '' AND [key] = ?"
_OF_COMMAND = "WHERE state = 'pending' AND fingerprint = ?"
_CLAIM_AGAIN = "UPDATE jobs SET claims = claims + 1 WHERE [key] != '' AND [key] = ?"
_OF_RECORD = "WHERE id = ? AND site = ? AND submitted = ? AND [key] = ?"
_SAVE_FINAL = f"UPDATE jobs SET final = ?, why = ?, requeued = ? {_OF_RECORD}"  # noqa: S608 (own names)
_SAVE_SEEN = f"UPDATE jobs SET seen = ? {_OF_RECORD}"  # noqa: S608 (own names)
_SETTLE = f"""{INSERT} ON CONFLICT ([key]) WHERE [key] != '' DO UPDATE SET """ + ", ".join(
    f"[{name}] = excluded.[{name}]" for name in _FIELDS
)


class Ledger(StateFile):
    """The file at `path`. The first write creates it; only its owner may read it.

    Every method raises ConfigError if the file cannot be used.
    """

    migrations = MIGRATIONS
    name = "the ledger"
    purpose = "it records your jobs"
    loss = (
        "a new one knows none of your jobs: `status` does not list them, and repeating a `submit` that was "
        "interrupted may submit its job a second time"
    )

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path or default_path())

    def check(self) -> None:
        """Check that a job can be recorded, before there is one."""
        with self._writing() as database:
            database.execute(f"SELECT {_NAMES} FROM jobs LIMIT 0")  # noqa: S608 (own names)

    def claim(self, record: Record, *, again: bool = False) -> Record:
        """Return the pending entry of the same command, or add `record` and return it.

        This is one transaction: of two terminals at the same time, the second gets the key of the first.

        Args:
            again: add it even if there is one.
        """
        with self._writing() as database:
            found = _select(database, _OF_COMMAND, record.fingerprint)
            if found and not again:
                database.execute(_CLAIM_AGAIN, (found[-1].key,))
                return found[-1]
            database.execute(INSERT, structs.asdict(record))
            return record

    def claim_again(self, key: str) -> None:
        """Count a further try of an entry, which `release` then keeps."""
        with self._writing() as database:
            database.execute(_CLAIM_AGAIN, (key,))

    def pending(self, fingerprint: str) -> Record | None:
        """The entry that `claim` would return for a command; None if it would add one."""
        return next(reversed(self._records(_OF_COMMAND, fingerprint)), None)

    def settle(self, record: Record) -> None:
        """Record the job of the entry with that key, even if another terminal dropped the entry."""
        self.settle_all([record])

    def settle_all(self, records: Sequence[Record]) -> None:
        """Record several jobs at once: all of them or, if that fails, none."""
        with self._writing() as database:
            database.executemany(_SETTLE, [structs.asdict(record) for record in records])

    def drop(self, key: str) -> None:
        """Remove the entry of a key that will never have a job."""
        with self._writing() as database:
            database.execute(_DROP, (key,))

    def release(self, key: str) -> None:
        """Remove an entry whose claimer has made no job, unless another process has claimed it too."""
        with self._writing() as database:
            database.execute(f"{_DROP} AND claims = 1", (key,))

    def add(self, record: Record) -> None:
        """Record a job."""
        with self._writing() as database:
            database.execute(INSERT, structs.asdict(record))

    def save_final_states(
        self, ends: Mapping[Record, tuple[str, str, str]], seen: Mapping[Record, str] = {}
    ) -> None:
        """Record how jobs ended, why they failed, and their last unfinished run; the last states of others.

        The first two are empty for a job that was requeued. It waits briefly: a later query finds them again.
        """
        with self._writing(briefly=True) as database:
            database.executemany(_SAVE_FINAL, [(*end, *_place(job)) for job, end in ends.items()])
            database.executemany(_SAVE_SEEN, [(state, *_place(job)) for job, state in seen.items()])

    def find(self, job_id: str, site: str | None = None) -> tuple[Record, ...]:
        """The jobs with that id, at one site or at all: the last submitted at each site."""
        found = [job for job in self.with_id(job_id) if site in (None, job.site)]
        return tuple({job.site: job for job in found}.values())

    def with_id(self, job_id: str) -> tuple[Record, ...]:
        """Every job with that id, including jobs of a cluster that has used the id again since."""
        return self._records("WHERE id = ?", job_id)

    def last(self, name: str | None = None, site: str | None = None) -> Record | None:
        """The job that was submitted last: of that name, at that site, or of all; also a pending one."""
        return next(iter(self.recent(1, site, name)), None)

    def recent(self, most: int, site: str | None = None, name: str | None = None) -> tuple[Record, ...]:
        """The last `most` entries, at one site or at all, of one name or all, in the order of submission."""
        given = {column: value for column, value in {"name": name, "site": site}.items() if value is not None}
        where = " AND ".join(["1", *(f"{column} = ?" for column in given)])
        newest = f"SELECT number FROM jobs WHERE {where} ORDER BY submitted DESC, number DESC LIMIT {most:d}"  # noqa: S608
        return self._records(f"WHERE number IN ({newest})", *given.values())

    def with_logs_elsewhere(self) -> tuple[Record, ...]:
        """The entries whose logs may be outside their run folders."""
        full = "'/' IN (substr(output, 1, 1), substr(stderr, 1, 1))"
        return self._records(f"WHERE {full} OR instr(output || stderr, '../')")

    def of_key(self, key: str) -> Record | None:
        """The entry with that key."""
        return next(iter(self._records("WHERE [key] = ? AND [key] != ''", key)), None)

    def unsettled(self, name: str, site: str | None = None) -> tuple[Record, ...]:
        """The pending entries with that key or that name, at one site or at all."""
        # SQLite does not choose this index by itself, since it does not know that few entries are pending.
        pending = "SELECT number FROM jobs INDEXED BY of_a_command WHERE state = 'pending'"
        found = self._records(f"WHERE number IN ({pending}) AND ? IN ([key], name)", name)
        return tuple(entry for entry in found if site in (None, entry.site))

    def unfinished(self, site: str | None = None) -> tuple[Record, ...]:
        """The submitted jobs whose end was not seen yet, at one site or at all."""
        # SQLite does not choose this index by itself, since it does not know that few jobs are unfinished.
        found = self._records("INDEXED BY unfinished WHERE final = '' AND state = 'submitted'")
        return tuple(entry for entry in found if site in (None, entry.site))

    def group(self, record: Record) -> tuple[Record, ...]:
        """The submitted jobs of a record's group at its site, in order; that one alone if it is in none."""
        if not record.part_of:
            return (record,)
        return tuple(one for one in self.group_of(record.part_of) if one.site == record.site)

    def group_of(self, key: str) -> tuple[Record, ...]:
        """The submitted jobs of a group, by its key."""
        return self._records("WHERE part_of != '' AND part_of = ? AND state = 'submitted'", key)

    def that_mention(self, site: str, job_id: str) -> tuple[Record, ...]:
        """The submitted jobs at a site whose requests may name the job with that id to be waited for."""
        mentions = f":{job_id}"
        return self._records("WHERE site = ? AND state = 'submitted' AND instr(request, ?)", site, mentions)

    def all(self, site: str | None = None) -> tuple[Record, ...]:
        """Every entry, at one site or at all, also the pending ones, in the order of submission."""
        return self._records("WHERE site = ?", site) if site else self._records("")

    def _records(self, where: str, *values: str) -> tuple[Record, ...]:
        with self._reading() as database:
            return _select(database, where, *values) if database else ()


def default_path() -> Path:
    """Path of the ledger: ~/.local/state/slurmgen/ledger.sqlite, or below XDG_STATE_HOME."""
    return state_folder() / "ledger.sqlite"


def _place(job: Record) -> tuple[str, ...]:
    return job.id, job.site, job.submitted, job.key


def _select(database: sqlite3.Connection, where: str, *values: str) -> tuple[Record, ...]:
    rows = database.execute(f"SELECT {_NAMES} FROM jobs {where} ORDER BY submitted, number", values)  # noqa: S608
    return tuple(map(_record, rows))


def _record(row: tuple[Any, ...]) -> Record:
    # Not strict: SQLite has no booleans.
    return convert(dict(zip(_FIELDS, row, strict=True)), Record, strict=False)


Kept = TypeVar("Kept")


def to_text(value: Struct | None) -> str:
    """The text of a struct; empty if there is none."""
    return json.encode(value).decode() if value else ""


def from_text(text: str, kind: type[Kept]) -> Kept | None:
    """The value of a text; None if there is none, or if the text cannot be read."""
    try:
        return json.decode(text, type=kind) if text else None
    except DecodeError:
        return None
