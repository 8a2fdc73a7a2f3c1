"""What a job's log says of its earlier runs: the batch script writes a line for each unfinished one. Pure."""

import re

from msgspec import Struct

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
    "The runs until then, also those that Slurm requeued after a preemption or a node failure."
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


NO_PROGRESS = "its script held it, because two runs in a row made no progress"
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
