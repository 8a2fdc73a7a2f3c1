"""An SQLite file of the user in the state folder.

Several slurmgen processes may write to it: each write is one transaction.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import uniform
from secrets import token_hex
from typing import ClassVar

from msgspec import ValidationError

from slurmgen.errors import ConfigError
from slurmgen.paths import make_private, require_private

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
        path.lstat()
    except FileNotFoundError:
        return None
    return path.stat().st_size


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
