"""What Slurm's commands answer, read without trusting the text around it.

A login shell may print anything before the answer, and a job's name may hold anything,
so a parser takes only lines of exactly the right form. A number has at most 18 digits.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from slurmgen.errors import shortened
from slurmgen.slurm.commands import FIELD_SEPARATOR, JobId
from slurmgen.slurm.usage import Usage, usage
from slurmgen.text import counted

ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"The states from which a job does not come back by itself."

_NUMBER = "[0-9]{1,18}"
_JOB_ID = re.compile(rf"(?P<number>{_NUMBER})(?:;(?P<cluster>\w[\w.-]{{0,63}}))?", re.ASCII)
_TASKS = rf"(?:{_NUMBER}|\[[0-9,:%.-]+\])"
_TASK_ID = re.compile(rf"{_NUMBER}(?:_{_TASKS})?(?:\+{_NUMBER})?(?:\.\w{{1,64}})?", re.ASCII)
_STATE = re.compile(r"[A-Z][A-Z_]{0,31}\+?(?: by [^|]{1,64})?")
_TEST_ANSWER = re.compile(
    r"Job [0-9]{1,18} to start at (\S{1,64}) using ([0-9]{1,9}) processors on nodes (\S{1,1000})"
    r"(?: in partition (\S{1,256}))?"
)


class JobState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Slurm knows of one job, or of one task of a job array."""

    id: str
    state: str
    "One of Slurm's, or UNKNOWN where who could know did not answer."
    reason: str = ""
    elapsed: str = ""
    time_limit: str = ""
    start: str = ""
    "When it started, or is expected to."
    nodes: str = ""
    exit_code: str = ""
    "Exit status and signal, as `1:0`."
    name: str = ""
    cancelled_by: str = ""
    "The user, mostly as a number."
    usage: Usage | None = None
    unaccounted: bool = False
    "Whether it ended where Slurm keeps no accounts, so that no more will be known of it."

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
        JobState(
            id=id_,
            state=state,
            reason=_said(reason),
            elapsed=elapsed,
            time_limit=_said(limit),
            start=_said(start),
            nodes=nodes,
            name=name,
        )
        for id_, state, reason, elapsed, limit, start, nodes, name in _rows(text, 8)
    )


def sacct(text: str) -> tuple[JobState, ...]:
    """The jobs in the answer of `commands.sacct`, each with the memory of its largest step.

    `CANCELLED by 1000` is CANCELLED. The rows of a job's steps, as `12.batch`, follow its own.
    """
    rows = list(_rows(text, 11))
    memory: dict[str, str] = {}
    for row in rows:
        job, _, step = row[0].partition(".")
        if step:
            memory[job] = max(
                memory.get(job, ""), row[9], key=lambda used: usage("", "", used).memory_used or 0
            )
    return tuple(_accounted(row, memory.get(row[0], "")) for row in rows if "." not in row[0])


def _accounted(row: list[str], memory: str) -> JobState:
    id_, state, exit_code, elapsed, limit, start, nodes, had, cpu, _, name = row
    word, _, by = state.partition(" by ")
    return JobState(
        id=id_,
        state=word.rstrip("+"),
        exit_code=exit_code,
        elapsed=elapsed,
        time_limit=_said(limit),
        start=_said(start),
        nodes="" if nodes == "None assigned" else nodes,
        name=name,
        cancelled_by=by,
        usage=usage(had, cpu, memory),
    )


def scontrol(text: str) -> tuple[JobState, ...]:
    """The jobs in the answer of `commands.scontrol`: one paragraph each."""
    paragraphs = re.split(r"\n\s*\n", text)
    return tuple(state for state in map(_paragraph, paragraphs) if state)


def log_path(text: str, *, stderr: bool = False) -> str | None:
    """The file of a job's stdout, or stderr, from the reply to `commands.scontrol`; None if not in it."""
    return _field(text, rf"^ +Std{'Err' if stderr else 'Out'}=(/.*)$") or None


def trial(text: str) -> str:
    """What `sbatch --test-only` said, in plain words."""
    match = _TEST_ANSWER.search(text)
    if not match:
        return complaint(text, "sbatch")
    start, processors, nodes, partition = match.groups()
    where = f" in partition {partition}" if partition else ""
    return f"it would start at {start} on {nodes}{where}, with {counted(int(processors), 'processor')}"


def complaint(text: str, program: str) -> str:
    """What a program complained of, without its prefixes and without the noise of a profile."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(f"{program}: ")]
    words = [re.sub(rf"^{re.escape(program)}: ((error|fatal): )?", "", line) for line in own or lines[-1:]]
    return shortened("; ".join(dict.fromkeys(words))) or "it gave no reason"


def _rows(text: str, fields: int) -> Iterator[list[str]]:
    """The lines of that many fields that begin with the id of a job or a step, and a state."""
    for line in text.splitlines():
        row = line.split(FIELD_SEPARATOR, fields - 1)
        if len(row) == fields and _TASK_ID.fullmatch(row[0]) and _STATE.fullmatch(row[1]):
            yield row


# A heterogeneous job has HetJobId and the like before its name.
_HEAD = re.compile(
    rf"^JobId=({_NUMBER})(?: ArrayJobId=({_NUMBER}) ArrayTaskId=([0-9,:%.-]{{1,4096}}))?"
    r"(?: (?!JobName=)\w{1,32}=\S{1,256}){0,8} JobName=(.*)$",
    re.MULTILINE | re.ASCII,
)


def _paragraph(text: str) -> JobState | None:
    head = _HEAD.search(text)
    state = re.search(r"^ +JobState=([A-Z_]+) Reason=(\S+)", text, re.MULTILINE)
    if not head or not state:
        return None
    number, array, task, name = head.groups()
    return JobState(
        id=f"{array}_{task}" if array else number,
        state=state[1],
        reason=_said(state[2]),
        elapsed=_field(text, r"^ +RunTime=(\S+)"),
        time_limit=_said(_field(text, r"^ +RunTime=\S+ TimeLimit=(\S+)")),
        start=_said(_field(text, r"^ +StartTime=(\S+)")),
        nodes=_said(_field(text, r"^ +NodeList=(\S+)")),
        exit_code=_field(text, r"^ +Requeue=.* ExitCode=([0-9]{1,3}:[0-9]{1,3})"),
        name=name,
    )


def _field(text: str, pattern: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _said(word: str) -> str:
    """Nothing, where Slurm has a word for nothing."""
    return "" if word in {"None", "(null)", "N/A", "Unknown", "INVALID", "Partition_Limit"} else word
