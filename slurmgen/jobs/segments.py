"""Jobs in segments, one array task after the other: the state of the whole run. Pure."""

from collections.abc import Sequence

from msgspec import DecodeError, Struct, json, structs

from slurmgen.jobs.failure import Why
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.requeued import FAILED, FINISHED, UNFINISHED, Requeued
from slurmgen.jobs.slurm_client import outcome, task_order
from slurmgen.slurm.replies import JobState
from slurmgen.text import counted

NO_PROGRESS = Why(
    "two segments in a row made no progress, so that no further one was started",
    "Make the script save, report its step and continue (docs/requeue.md), and submit it again.",
)
_UNFINISHED = (75, 0)
"The exit status and the signal of a segment that is unfinished."
_CONTINUE = "`slurmgen resubmit {} --segments N` submits it again; its script must find the checkpoint."


class _Request(Struct, frozen=True):
    segments: int | None = None


class _Asked(Struct, frozen=True):
    request: _Request = _Request()


def segments_of(record: Record) -> int:
    """The segments that a job may take; 0 for a job without."""
    if '"segments":' not in record.request:
        return 0
    try:
        number = json.decode(record.request, type=_Asked).request.segments or 0
    except DecodeError:
        return 0
    return number if number > 1 else 0


def run_state(states: Sequence[JobState], last: Requeued | None) -> str:
    """The state of the whole run, from those of its tasks and what its log says of the last one.

    A run that has finished early is COMPLETED, although the tasks that it did not need are CANCELLED.
    """
    if not states or not all(state.ended for state in states):
        return outcome(states)
    end = last.end if last else ""
    if end == FINISHED:
        return "COMPLETED"
    bad = [state.state for state in sorted(states, key=task_order) if state.state != "COMPLETED"]
    if end == FAILED or (last and last.held):
        return next((state for state in reversed(bad) if state != "CANCELLED"), "FAILED")
    if shown := decisive(states):
        return shown.state
    return "FAILED" if end == UNFINISHED else "COMPLETED"


def is_unread(states: Sequence[JobState], last: Requeued | None) -> bool:
    """Whether only the log says how the run ended, and it was not read: it may have finished early."""
    ran = [state.state for state in sorted(states, key=task_order) if state.state != "CANCELLED"]
    return last is None and ran[-1:] == ["COMPLETED"]


def decisive(states: Sequence[JobState]) -> JobState | None:
    """The segment that ended the run, else the last one that did not complete; None if all did."""
    bad = [state for state in sorted(states, key=task_order) if state.ended and state.state != "COMPLETED"]
    return next(filter(_ends_run, bad), bad[-1] if bad else None)


def _ends_run(state: JobState) -> bool:
    """Whether no segment continues after one that ended in this way."""
    if state.state == "FAILED":
        return state.status_and_signal != _UNFINISHED
    return state.state in ("CANCELLED", "DEADLINE", "OUT_OF_MEMORY")


def why_unfinished(job: str, state: str, last: Requeued | None, states: Sequence[JobState]) -> Why | None:
    """Why a run ended unfinished; None if it did not."""
    if last and last.held:
        return NO_PROGRESS
    is_error = (last and last.end == FAILED) or any(map(_ends_run, states))
    if state in ("FAILED", "TIMEOUT") and not is_error:
        number = counted(last.of if last and last.of else len(states), "segment")
        step = f" at step {last.step:,}" if last and last.step else ""
        return Why(f"the run is unfinished after {number}{step}", _CONTINUE.format(job))
    return None


def main_state(states: Sequence[JobState], state: str) -> JobState | None:
    """The task whose state is that of the run: the one that runs, or the last one that ran."""
    in_order = sorted(states, key=task_order)
    active = [one for one in in_order if not one.ended]
    if active:
        return next((one for one in active if one.state != "PENDING"), _next(active))
    return next((one for one in reversed(in_order) if one.state == state), None)


def _next(waiting: Sequence[JobState]) -> JobState:
    """The task that starts next: the first one, unless it is held and others are not."""
    return min(waiting, key=lambda one: ("held" in one.reason.lower(), task_order(one)))


def which(states: Sequence[JobState], segments: int) -> str:
    """The segment that runs, waits or ran last, in words."""
    ran = [one for one in states if one.state not in ("PENDING", "CANCELLED") or one.nodes]
    waiting = [one for one in states if one.state == "PENDING"]
    shown = max(ran, key=task_order, default=None)
    if waiting and (shown is None or shown.ended):
        shown = _next(waiting)
    number = shown.id.rpartition("_")[2].lstrip("[").partition("-")[0] if shown else "0"
    return f"segment {number} of {segments}"


def advised(why: Why | None) -> Why | None:
    """A reason without the advice to use --requeue, which excludes --segments."""
    return structs.replace(why, todo="") if why and "--requeue" in why.todo else why
