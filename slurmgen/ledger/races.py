"""The races of `--first` in the ledger, and their gates."""

import sqlite3
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed
from slurmgen.ledger.ledger import INSERT, Ledger, Record
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport

GATE_FILE = "gate"
"The name of the gate, a link to one of these two words, in the folder of the records of a submission."

GATE_OPEN, GATE_CLOSED = "open", "closed"

# Making a link is atomic, and fails if there is one: of slurmgen and the script, only one decides.
_SET = 'ln -sT -- "$2" "$1" 2>/dev/null; readlink -- "$1"'


def open_gate(transport: Transport, folder: str) -> bool:
    """Open the gate of the job in a run folder; False if it is closed.

    Raises:
        CommandFailed: it could be neither opened nor closed.
        ConnectionFailed, TimedOut: it is not known whether it is open.
    """
    return _set(transport, folder, GATE_OPEN) == GATE_OPEN


def close_gate(transport: Transport, folder: str) -> bool:
    """Close the gate of the job in a run folder, so that it never runs its program; False if it is open.

    Raises:
        As `open_gate`.
    """
    return _set(transport, folder, GATE_CLOSED) == GATE_CLOSED


def _set(transport: Transport, folder: str, word: str) -> str:
    run = PurePosixPath(folder)  # it may be removed; the records stay
    gate = run.parent.parent / "submissions" / run.name / GATE_FILE
    reply = transport.run(["sh", "-c", _SET, "slurmgen", str(gate), word], timeout=COMMAND_TIMEOUT)
    found = reply.out.strip()
    if reply.returncode or found not in (GATE_OPEN, GATE_CLOSED):
        raise CommandFailed(
            f"the gate of the job in {folder} on {transport.where} cannot be set: "
            f"{reply.err.strip() or 'no link could be made'}",
            "Check the free space and the permissions of that folder.",
        )
    return found


_COLUMNS = "[key], command, chosen, over"
_HAS_JOBS = "EXISTS (SELECT 1 FROM jobs WHERE part_of != '' AND part_of = races.[key])"
_OF_COMMAND = f"WHERE over = 0 AND command = ? AND {_HAS_JOBS} ORDER BY [key] DESC"
_OF_KEY = "WHERE [key] = ?"


class Race(Struct, frozen=True):
    """The jobs of one command at several sites."""

    key: str
    "All its jobs have it as `part_of`."
    command: str
    "A hash, the same for the same command."
    chosen: str = ""
    "The key of the job whose gate is opened; empty before."
    over: bool = False
    "Whether nothing is left to do; the same command then starts a new race."


class Races(Ledger):
    """The races in the ledger. Every method raises ConfigError if the file cannot be used."""

    def enter(self, race: Race, records: Sequence[Record], *, again: bool = False) -> Race:
        """Return the unfinished race of the same command, or add this one with its pending entries.

        A race whose entries are all gone counts as finished: each was forgotten or refused.

        This is one transaction: of two terminals at the same time, the second joins the race of the first.

        Args:
            again: add it even if there is one, whose jobs then run nothing unless one is chosen already.
        """
        with self._writing() as database:
            found = _select(database, _OF_COMMAND, race.command)
            if found and not again:
                joined = "UPDATE jobs SET claims = claims + 1 WHERE state = 'pending' AND part_of = ?"
                database.execute(joined, (found[0].key,))
                return found[0]
            database.execute("UPDATE races SET over = 1 WHERE command = ?", (race.command,))
            database.execute(f"INSERT INTO races ({_COLUMNS}) VALUES (?, ?, ?, ?)", structs.astuple(race))  # noqa: S608 (own names)
            database.executemany(INSERT, [structs.asdict(record) for record in records])
            return race

    def open_race(self, command: str) -> Race | None:
        """The race that `enter` would return for a command; None if it would add one."""
        return self._race(_OF_COMMAND, command)

    def of(self, record: Record) -> Race | None:
        """The race that a job is in."""
        return self.named(record.part_of) if record.part_of else None

    def named(self, key: str) -> Race | None:
        """The race with that key."""
        return self._race(_OF_KEY, key)

    def current(self, race: Race) -> Race:
        """The race as it is now."""
        return self._race(_OF_KEY, race.key) or race

    def entries(self, race: Race) -> tuple[Record, ...]:
        """All jobs of a race, including pending ones."""
        return self._records("WHERE part_of != '' AND part_of = ?", race.key)

    def choose(self, race: Race, key: str) -> Race:
        """Choose the job with that key, unless one is chosen or the race is over; the race as it is then."""
        return self._changed(race, "chosen = ? WHERE [key] = ? AND chosen = '' AND over = 0", key, race.key)

    def take_back(self, race: Race) -> Race:
        """Take a choice back, also if the race is over; only for a job whose gate is closed."""
        return self._changed(race, "chosen = '' WHERE [key] = ? AND chosen = ?", race.key, race.chosen)

    def stop(self, race: Race) -> Race:
        """End a race unless a job is chosen, so that none ever is; the race as it is then."""
        return self._changed(race, "over = 1 WHERE [key] = ? AND chosen = ''", race.key)

    def finish(self, race: Race) -> None:
        """End a race: the same command then starts a new one."""
        self._changed(race, "over = 1 WHERE [key] = ?", race.key)

    def _changed(self, race: Race, change: str, *values: str) -> Race:
        with self._writing() as database:
            database.execute(f"UPDATE races SET {change}", values)  # noqa: S608 (own names)
            return _select(database, _OF_KEY, race.key)[0]

    def winners(self) -> dict[str, Record]:
        """The chosen job of each race, by the key of the race."""
        chosen = "SELECT chosen FROM races WHERE chosen != ''"
        found = self._records(f"WHERE [key] != '' AND state = 'submitted' AND [key] IN ({chosen})")
        return {record.part_of: record for record in found}

    def losers(self, records: Sequence[Record]) -> set[Record]:
        """The records that lost a race to another one of them."""
        keys = {record.key for record in records}
        groups = {record.part_of for record in records} - {""}
        races = {race.key: race for group in groups if (race := self._race(_OF_KEY, group))}
        winners = {key: race.chosen for key, race in races.items() if race.chosen in keys - {""}}
        return {one for one in records if winners.get(one.part_of, one.key) != one.key}

    def _race(self, where: str, value: str) -> Race | None:
        with self._reading() as database:
            return next(iter(_select(database, where, value)), None) if database else None


def _select(database: sqlite3.Connection, where: str, value: str) -> list[Race]:
    rows = database.execute(f"SELECT {_COLUMNS} FROM races {where}", (value,))  # noqa: S608 (own names)
    return [Race(key, command, chosen, bool(over)) for key, command, chosen, over in rows]
