"""Finals: how jobs ended, as the ledger keeps it once it was seen. Pure."""

from collections.abc import Sequence

from msgspec import DecodeError, json

from slurmgen.jobs.failure import Why
from slurmgen.jobs.slurm_client import UNKNOWN, ended
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FINAL = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"The states from which Slurm brings no job back by itself, as it may after a preemption or a node's failure."
FORGOTTEN = "Slurm there does not know it any more"


def as_text(states: Sequence[JobState]) -> str:
    """How a job ended, with all its tasks; nothing if it has not, or may come back.

    Of an array without accounting Slurm forgets task after task, so that nobody knows whether these are all.
    """
    is_all = (len(states) == 1 and "_" not in states[0].id) or all(one.usage is not None for one in states)
    is_final = bool(states) and is_all and all(one.state in FINAL for one in states)
    return json.encode(states).decode() if is_final else ""


def from_text(text: str, job: JobId) -> tuple[JobState, ...]:
    """How a job ended, or that task of it; nothing if that cannot be read."""
    try:
        return tuple(one for one in json.decode(text or "[]", type=list[JobState]) if job.covers(one.id))
    except DecodeError:
        return ()


def why_as_text(why: Why | None) -> str:
    """Why a job failed; nothing if it did not, or if that is not known."""
    return json.encode(why).decode() if why else ""


def why_from_text(text: str) -> Why | None:
    """Why a job failed; None if that is not known or cannot be read."""
    try:
        return json.decode(text, type=Why) if text else None
    except DecodeError:
        return None


def recalled(final: tuple[JobState, ...], said: tuple[JobState, ...]) -> tuple[tuple[JobState, ...], str]:
    """What Slurm says of a job, with what was seen of it once where Slurm has forgotten it.

    The text is why all of it is remembered; nothing if not all is.
    """
    known = tuple(one for one in said if one.state != UNKNOWN)
    if not final or not ended(known):
        return said, ""
    reason = "" if known else next((one.reason for one in said), FORGOTTEN)
    return tuple({one.id: one for one in (*final, *known)}.values()), reason
