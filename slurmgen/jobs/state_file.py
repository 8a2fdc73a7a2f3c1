"""An SQLite file of the user in the state folder.

Several slurmgen processes may write to it: each write is one transaction.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import ClassVar

from msgspec import ValidationError

from slurmgen.errors import ConfigError
from slurmgen.paths import make_private, require_private

BUSY_TIMEOUT = 60.0
"Seconds to wait for other processes that are writing. They do not queue, and a slow disk takes a second."


class StateFile:
    """The file at `path`. The first write creates it; only its owner may read it.

    It is not in WAL mode: home folders are on NFS, where that is not safe (https://sqlite.org/wal.html).
    """

    migrations: ClassVar[tuple[tuple[str, ...], ...]]
    "The statements that lead to each schema version from the one before. SQLite keeps it as user_version."
    purpose: ClassVar[str]
    "What the file is for, as the beginning of a hint."

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that locks at its start: of two that read first, one could not write."""
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
            # Closing rolls an open transaction back.
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)) as database:
                # SQLite's default may lose the last transaction if the power fails right after it.
                database.execute("PRAGMA synchronous = EXTRA")
                self._prepare(database)
                yield database
        except (OSError, sqlite3.Error, ValidationError) as error:
            raise ConfigError(
                f"cannot use {self.path}: {error}", f"{self.purpose}; move it away to start a new one."
            ) from None

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Migrate the file to the current schema, and keep all entries; refuse a newer schema."""
        newest = len(self.migrations)
        if (version := _schema_version(database)) > newest:
            raise ConfigError(
                f"{self.path} was written by a newer slurmgen "
                f"(schema version {version}; this one supports {newest})",
                "Update slurmgen on this machine too.",
            )
        if version < newest:
            database.execute("BEGIN IMMEDIATE")
            for statements in self.migrations[
                _schema_version(database) :
            ]:  # another process may have migrated
                for statement in statements:
                    database.execute(statement)
            database.execute(f"PRAGMA user_version = {newest}")
            database.execute("COMMIT")


def _make(path: Path) -> None:
    """Create an empty file atomically, readable only by its owner.

    Only SQLite opens the file under its final name: closing another descriptor would release the locks of
    all other threads (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    new = path.with_name(f"{path.name}.{token_hex(8)}")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        os.link(new, path)
    except FileExistsError:  # another process was faster
        pass
    finally:
        new.unlink()


def _schema_version(database: sqlite3.Connection) -> int:
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    return version
