"""The final and last known states of jobs, as the ledger keeps them. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import DecodeError, Struct, json

from slurmgen.jobs.slurm_client import UNKNOWN, ended
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import GONE, JobState
from slurmgen.text import counted

FINAL = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"States after which Slurm does not requeue a job by itself, as it may after a preemption or a node failure."
_FORGOTTEN = "Slurm has no record of it any more"
_FRESH = 60.0
"Seconds for which the same state is not recorded again: each time rewrites a part of the ledger."


class LastKnown(Struct, frozen=True):
    """The state of a job at an earlier query."""

    state: str
    at: str
    "The time of that query, as ISO 8601 in UTC."

    def age(self, now: datetime | None = None) -> float:
        """Seconds since that query."""
        try:
            return ((now or datetime.now(UTC)) - datetime.fromisoformat(self.at)).total_seconds()
        except (ValueError, TypeError):
            return float("inf")

    def text(self, now: datetime | None = None) -> str:
        """The state and its age.

        >>> LastKnown("RUNNING", "2026-01-31T12:00:00+00:00").text(datetime(2026, 1, 31, 12, 12, tzinfo=UTC))
        'RUNNING 12 min ago'
        """
        age = self.age(now)
        units = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
        if age == float("inf"):
            return self.state
        size, unit = next(one for one in units if age >= 2 * one[0] or one[0] == 1)
        number = max(0, int(age // size))
        return f"{self.state} {counted(number, unit) if unit == 'day' else f'{number} {unit}'} ago"

    def replaces(self, before: "LastKnown | None") -> bool:
        """Whether it is worth recording instead of an earlier one."""
        return before is None or before.state != self.state or not 0 <= before.age() < _FRESH


def as_text(states: Sequence[JobState], tasks: int = 0) -> str:
    """The final states of a job, one for each task; empty if it has not ended, or may be requeued.

    Without accounting, Slurm forgets the tasks of an array one by one, and these may not be all of them.

    Args:
        states: as Slurm reports them.
        tasks: how many tasks a sweep has; 0 if it is not known.
    """
    is_whole = len(states) == 1 and not re.search("[_+]", states[0].id)
    has_usage = all(state.usage is not None for state in states)
    are_all = is_whole or (sum(map(_tasks, states)) == tasks if tasks else has_usage)
    is_final = bool(states) and are_all and all(state.state in FINAL for state in states)
    return json.encode(states).decode() if is_final else ""


def _tasks(state: JobState) -> int:
    """The tasks that a record is of: those that never ran share one, such as 12_[3,5-9%2]."""
    parts = re.findall("([0-9]+)(?:-([0-9]+))?", state.id.partition("[")[2].partition("%")[0])
    return sum(int(last or first) - int(first) + 1 for first, last in parts) if "[" in state.id else 1


def from_text(text: str, job: JobId) -> tuple[JobState, ...]:
    """The final states of a job or of one task; empty if the text cannot be read."""
    try:
        return tuple(
            state for state in json.decode(text or "[]", type=list[JobState]) if job.covers(state.id)
        )
    except DecodeError:
        return ()


def with_final(reply: tuple[JobState, ...], final: tuple[JobState, ...]) -> tuple[tuple[JobState, ...], str]:
    """Slurm's reply, completed with the final states of the ledger for what Slurm has forgotten.

    The text says why all states come from the ledger; it is empty if not all do.
    """
    known = tuple(state for state in reply if state.state not in (UNKNOWN, GONE))
    if not final or not ended(known):
        return reply, ""
    reason = "" if known else next((state.reason for state in reply), _FORGOTTEN)
    return tuple({state.id: state for state in (*final, *known)}.values()), reason
