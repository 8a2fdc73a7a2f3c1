"""The final states of jobs, as the ledger keeps them. Pure."""

from collections.abc import Sequence

from msgspec import DecodeError, json

from slurmgen.jobs.slurm_client import UNKNOWN, ended
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import GONE, JobState

FINAL = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"States after which Slurm does not requeue a job by itself, as it may after a preemption or a node failure."
_FORGOTTEN = "Slurm has no record of it any more"


def as_text(states: Sequence[JobState], tasks: int = 0) -> str:
    """The final states of a job, one for each task; empty if it has not ended, or may be requeued.

    Without accounting, Slurm forgets the tasks of an array one by one, and these may not be all of them.

    Args:
        states: as Slurm reports them.
        tasks: how many tasks a sweep has; 0 if it is not known.
    """
    are_all = (
        (len(states) == 1 and "_" not in states[0].id)
        or (tasks and len(states) == tasks)
        or all(state.usage is not None for state in states)
    )
    is_final = bool(states) and are_all and all(state.state in FINAL for state in states)
    return json.encode(states).decode() if is_final else ""


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
