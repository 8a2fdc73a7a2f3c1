"""The ledger: which job was submitted where, so that its id alone is enough to find it.

It is an SQLite file of the user, `ledger.sqlite` in the state folder (~/.local/state/slurmgen), and holds
no secrets. Several slurmgen processes may write to it: each write is one transaction.

An entry is made before anything is sent, with an idempotency key and without a job. It is *settled* when
the id of the job is known. Until then the same command uses the same key again, and so finds its job.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert, structs

from slurmgen.jobs.ledger_schema import MIGRATIONS
from slurmgen.jobs.state_file import StateFile
from slurmgen.paths import state_folder


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
    "How the job ended, once it was seen, as `slurmgen.jobs.final_states` writes it."
    why: str = ""
    "Why the job failed, once it was seen, as `slurmgen.jobs.final_states` writes it."
    command: str = ""
    "The command line that submitted it, without the values of --env."
    directory: str = ""
    "Working directory of that command."
    stderr: str = ""
    "The value of --error, if stderr has a file of its own; `output` is then that of stdout alone."
    retries: bool = False
    "Whether it leaves bad nodes and runs again, so that it may report some even if it succeeds."
    requeue: bool = False
    "Whether it was submitted with --requeue."
    requeued: str = ""
    "Its last unfinished run, once it was seen, as `slurmgen.jobs.requeued` writes it."
    request: str = ""
    "What was asked for, as JSON, so that it can be asked for again; without the values of secrets."
    part_of: str = ""
    "The key that all jobs of one sweep, chain, graph or race share; empty for a single job."
    tasks: str = ""
    "The parameters of each task of a sweep, as JSON."
    seen: str = ""
    "Its last state before its end, as `slurmgen.jobs.final_states.LastKnown`."

    @property
    def pending(self) -> bool:
        """Whether it is unknown if there is a job; repeating the `submit` finds out."""
        return self.state == "pending"


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
            record: the entry to add if there is none.
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
        """Every job with that id, also those of a cluster that has used the id again since."""
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
