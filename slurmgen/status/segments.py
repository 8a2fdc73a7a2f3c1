"""The segments of a run that continues, and jobs that Slurm requeued."""

import re
from collections.abc import Sequence

from msgspec import Struct

from slurmgen.ledger.ledger import Record
from slurmgen.slurm.replies import JobState
from slurmgen.status.failure import Why
from slurmgen.status.slurm import outcome, task_order
from slurmgen.text import counted

_LINE = re.compile(
    r"^slurmgen: run ([0-9]{1,9}) is unfinished, (?:at step ([0-9]{1,18})|no step recorded), "
    r"([0-9]{1,9}) without progress: "
    r"scontrol (requeue|requeuehold)$",
    re.MULTILINE,
)

UNFINISHED, FINISHED, FAILED = "unfinished", "finished", "failed"
"How a segment ended."
_SEGMENT = re.compile(
    r"^slurmgen: segment ([0-9]{1,9}) of ([0-9]{1,9}) "
    r"(?:is unfinished, (?:at step ([0-9]{1,18})|no step recorded), ([0-9]{1,9}) without progress"
    r"(: no further segment)?|has (finished|failed)(?: the run| with exit status [0-9]{1,3}, .*))$",
    re.MULTILINE,
)


class Requeued(Struct, frozen=True):
    """The last unfinished run of a job that was requeued, or the last segment that has ended."""

    runs: int
    "The runs until then, including runs that Slurm requeued after a preemption or a node failure."
    step: int
    "The greatest step that the script reported; 0 if it reported none."
    idle: int
    "The last runs in a row without progress."
    held: bool
    "Whether the script held the job or ended the run, because it made no progress."
    of: int = 0
    "The segments that a run may take; 0 for a job that requeues itself."
    end: str = ""
    "How the last segment ended: unfinished, finished or failed."

    @property
    def text(self) -> str:
        """The line of a report."""
        step = f" at step {self.step:,}" if self.step else ""
        what = "segment" if self.of else "run"
        if self.end in (FINISHED, FAILED):
            return f"segment {self.runs} of {self.of} {self.end}"
        idle = f"; the last {counted(self.idle, what)} made no progress" if self.idle else ""
        return f"{counted(self.runs, what)} ended unfinished{step}{idle}"


HELD_WITHOUT_PROGRESS = "its script held it, because two runs in a row made no progress"

WHAT_TO_DO = (
    "Make the script save, report its step and continue (docs/requeue.md); then `scontrol release {}`, "
    "or cancel it."
)


def requeued(log: str) -> Requeued | None:
    """What the end of a log says of the last unfinished run; None if there was none."""
    found = list(_LINE.finditer(log))
    if not found:
        return _segment(log)
    runs, step, idle, command = found[-1].groups()
    return Requeued(int(runs), int(step or 0), int(idle), command == "requeuehold")


def _segment(log: str) -> Requeued | None:
    """What the end of a log says of the last segment that has ended; None if there was none."""
    found = list(_SEGMENT.finditer(log))
    if not found:
        return None
    number, of, step, idle, stuck, end = found[-1].groups()
    return Requeued(int(number), int(step or 0), int(idle or 0), bool(stuck), int(of), end or UNFINISHED)


NO_PROGRESS = Why(
    "two segments in a row made no progress, so that no further one was started",
    "Make the script save, report its step and continue (docs/requeue.md), and submit it again.",
)
_UNFINISHED = (75, 0)
"The exit status and the signal of a segment that is unfinished."
_CONTINUE = "`slurmgen resubmit {} --segments N` submits it again; its script must find the checkpoint."


def segments_of(record: Record) -> int:
    """The segments that a job may take; 0 for a job without."""
    number = record.asked("segments") if '"segments":' in record.request else 0
    return number if isinstance(number, int) and number > 1 else 0


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
