"""What Slurm's commands answer, read without trusting the text around it.

A login shell may print anything before the answer, and a job's name may hold anything,
so a parser takes only lines of exactly the right form.
"""

import re

from msgspec import Struct

from slurmgen.slurm.commands import FIELD_SEPARATOR, JobId

ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"The states from which a job does not come back by itself."

_JOB_ID = re.compile(r"(?P<number>\d+)(?:;(?P<cluster>[\w.-]+))?")
_TASK_ID = re.compile(r"\d+(_(\d+|\[.*\]))?(\+\d+)?")
_STATE = re.compile(r"[A-Z][A-Z_]*")
_TEST_ANSWER = re.compile(
    r"Job \d+ to start at (\S+) using (\d+) processors on nodes (\S+)(?: in partition (\S+))?"
)


class JobState(Struct, frozen=True, kw_only=True):
    """What Slurm knows of one job, or of one task of a job array."""

    id: str
    state: str
    reason: str = ""
    elapsed: str = ""
    nodes: str = ""
    exit_code: str = ""
    "Exit status and signal, as `1:0`."
    name: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ENDED


def job_id(text: str) -> JobId | None:
    """The job in the answer of `sbatch --parsable`: the last line that is one; None if none is."""
    matches = [_JOB_ID.fullmatch(line.strip()) for line in text.splitlines()]
    found = [match for match in matches if match]
    return JobId(found[-1]["number"], found[-1]["cluster"] or "") if found else None


def squeue(text: str) -> tuple[JobState, ...]:
    """The jobs in the answer of `commands.squeue`."""
    return tuple(
        JobState(id=id_, state=state, reason=_said(reason), elapsed=elapsed, nodes=nodes, name=name)
        for id_, state, reason, elapsed, nodes, name in _rows(text)
    )


def sacct(text: str) -> tuple[JobState, ...]:
    """The jobs in the answer of `commands.sacct`. `CANCELLED by 1000` is CANCELLED."""
    return tuple(
        JobState(id=id_, state=state.split()[0], exit_code=exit_code, elapsed=elapsed, nodes=nodes, name=name)
        for id_, state, exit_code, elapsed, nodes, name in _rows(text)
    )


def scontrol(text: str) -> tuple[JobState, ...]:
    """The jobs in the answer of `commands.scontrol`: one paragraph each."""
    paragraphs = re.split(r"\n\s*\n", text)
    return tuple(state for state in map(_paragraph, paragraphs) if state)


def log_path(text: str) -> str | None:
    """Where a job writes its log, from the answer of `commands.scontrol`; None if it does not say."""
    return _field(text, r"^ +StdOut=(/.*)$") or None


def trial(text: str) -> str:
    """What `sbatch --test-only` said, in plain words."""
    match = _TEST_ANSWER.search(text)
    if not match:
        return complaint(text, "sbatch")
    start, processors, nodes, partition = match.groups()
    where = f" in partition {partition}" if partition else ""
    return f"it would start at {start} on {nodes}{where}, with {processors} processors"


def complaint(text: str, program: str) -> str:
    """What a program complained of, without its prefixes and without the noise of a profile."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(f"{program}: ")]
    words = [re.sub(rf"^{re.escape(program)}: ((error|fatal): )?", "", line) for line in own or lines[-1:]]
    return "; ".join(dict.fromkeys(words)) or "it gave no reason"


def _rows(text: str) -> list[list[str]]:
    """The lines of six fields that begin with a job's id and a state."""
    rows = [line.split(FIELD_SEPARATOR, 5) for line in text.splitlines()]
    return [row for row in rows if len(row) == 6 and _TASK_ID.fullmatch(row[0]) and _STATE.match(row[1])]


def _paragraph(text: str) -> JobState | None:
    head = re.search(
        r"^JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\S+))?.*? JobName=(.*)$", text, re.MULTILINE
    )
    state = re.search(r"^ +JobState=([A-Z_]+) Reason=(\S+)", text, re.MULTILINE)
    if not head or not state:
        return None
    number, array, task, name = head.groups()
    return JobState(
        id=f"{array}_{task}" if array else number,
        state=state[1],
        reason=_said(state[2]),
        elapsed=_field(text, r"^ +RunTime=(\S+)"),
        nodes=_said(_field(text, r"^ +NodeList=(\S+)")),
        exit_code=_field(text, r"^ +Requeue=.* ExitCode=(\d+:\d+)"),
        name=name,
    )


def _field(text: str, pattern: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _said(word: str) -> str:
    """Nothing, where Slurm has a word for nothing."""
    return "" if word in {"None", "(null)", "N/A"} else word
