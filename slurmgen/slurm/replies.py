"""Parse the replies of Slurm's commands.

A login shell may print anything before a reply, and a job may have any name, so that a parser accepts only
lines of exactly the right form. A number has at most 18 digits.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from msgspec import DecodeError, Struct, json, structs

from slurmgen.errors import shortened
from slurmgen.slurm import units
from slurmgen.slurm.commands import EXIT_CODES, SACCT, SQUEUE, Field, JobId, read_row, value
from slurmgen.text import counted

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)", re.ASCII)
_LONGEST_TIME = 32
_MEBIBYTES = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


class Usage(Struct, frozen=True, kw_only=True):
    """What a job was allocated, and what it used."""

    nodes: int = 0
    cpus: int = 0
    "CPUs that were allocated."
    gpus: int = 0
    "0 if the site does not account for GPUs."
    memory: int | None = None
    "MiB on all its nodes."
    memory_used: int | None = None
    "MiB of all tasks of the largest step, each at its maximum; None if Slurm took no sample."
    cpu_seconds: int | None = None
    "Seconds of CPU time of all tasks."
    gpu_percent: int | None = None
    "Of all its GPUs, as Slurm sampled them; None if the site does not have it sampled."


def usage(allocated: str, cpu_time: str, used: str = "") -> Usage:
    """Parse sacct's AllocTRES, TotalCPU and TRESUsageInTot.

    >>> usage("billing=2,cpu=2,gres/gpu=1,mem=2G,node=1", "00:03.016", "mem=222132K,gres/gpuutil=57")
    Usage(nodes=1, cpus=2, gpus=1, memory=2048, memory_used=217, cpu_seconds=3, gpu_percent=57)
    """
    tres, measured = pairs(allocated), pairs(used)
    gpus = _count(tres.get("gres/gpu", ""))
    return Usage(
        nodes=_count(tres.get("node", "")),
        cpus=_count(tres.get("cpu", "")),
        gpus=gpus,
        memory=mebibytes(tres.get("mem", "")),
        memory_used=mebibytes(measured.get("mem", "")),
        cpu_seconds=whole_seconds(cpu_time),
        gpu_percent=_percent(measured.get("gres/gpuutil", ""), gpus),
    )


def whole_seconds(text: str) -> int | None:
    """Seconds of a time as Slurm prints it, without fractions; None if it is not a time, as UNLIMITED."""
    if len(text) > _LONGEST_TIME:
        return None
    try:
        return units.seconds(text.partition(".")[0])
    except ValueError:
        return None


def in_one_form(text: str) -> str:
    """A time as slurmgen writes it; squeue and sacct differ.

    >>> in_one_form("1:05"), in_one_form("UNLIMITED")
    ('00:01:05', 'UNLIMITED')
    """
    seconds = whole_seconds(text)
    return text if seconds is None else units.canonical_time(seconds)


def mebibytes(text: str) -> int | None:
    """MiB of a size as Slurm prints it, such as 1655.50K, rounded up; None if it is not a size."""
    match = _SIZE.fullmatch(text)
    return ceil(float(match[1]) * _MEBIBYTES[match[2]]) if match else None


def pairs(text: str) -> dict[str, str]:
    """The trackable resources of a text such as `cpu=2,mem=2G`, by name."""
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _percent(total: str, gpus: int) -> int | None:
    """The share of the GPUs, from the sum over tasks and GPUs."""
    known = gpus and re.fullmatch("[0-9]{1,9}", total)
    return min(100, round(int(total) / gpus)) if known else None


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0


_ENDED = {
    **{"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED"},
    **{"NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED", "RV": "REVOKED", "TO": "TIMEOUT"},
}
_ACTIVE = {
    **{"CF": "CONFIGURING", "CG": "COMPLETING", "PD": "PENDING", "R": "RUNNING", "RD": "RESV_DEL_HOLD"},
    **{"RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING", "S": "SUSPENDED"},
    **{"SE": "SPECIAL_EXIT", "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED"},
    # These have no compact form (https://slurm.schedmd.com/job_state_codes.html).
    **{name: name for name in ("EXPEDITING", "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL", "UPDATE_DB")},
}
ENDED = frozenset(_ENDED.values())
"The states of a job that will not run any more, unless it is requeued."
ACTIVE = frozenset(_ACTIVE.values())
"The states of a job that may still run; a state of a later Slurm is in neither set."
WAITING = frozenset(
    {"PENDING", *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")}
)
"The states of a job that has no nodes."
_WORDS = _ENDED | _ACTIVE
"States by their compact forms, such as `CG`."
GONE = "GONE"
"State of a job that neither the controller nor accounting has a record of."

COMMENT = "slurmgen:"
"Precedes the key in a job's comment."
_ZONES = timedelta(hours=26)
"By so much may the local time of a site and UTC differ, with a wrong clock."
_NUMBER = "[0-9]{1,18}"
_JOB_ID = re.compile(rf"(?P<number>{_NUMBER})(?:;(?P<cluster>\w[\w.-]{{0,63}}))?", re.ASCII)
_TASKS = rf"(?:{_NUMBER}|\[[0-9,:%.-]+\])"
_TASK_ID = re.compile(rf"{_NUMBER}(?:_{_TASKS})?(?:\+{_NUMBER})?(?:\.\w{{1,64}})?", re.ASCII)
_STATE = re.compile(r"(?:[A-Z][A-Z0-9_,]{0,31}\+?|\?)(?: by [^|]{1,64})?")
_CODE = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")
_TEST_REPLY = re.compile(
    r"Job [0-9]{1,18} to start at (\S{1,64})(?: a)? using ([0-9]{1,9}) processors on nodes (\S{1,1000})"
    r"(?: in partition (\S{1,256}))?"
)


class JobState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one job, or of one task of a job array, as Slurm reports it."""

    id: str
    state: str
    "One of Slurm's, or UNKNOWN if accounting did not reply."
    reason: str = ""
    elapsed: str = ""
    time_limit: str = ""
    start: str = ""
    "Time when it started, or is expected to."
    nodes: str = ""
    excluded: str = ""
    "Nodes that it must not run on; only squeue reports them."
    exit_code: str = ""
    "Exit status and signal, as `1:0`."
    is_exact: bool | None = None
    "False if the exit status may be 128 more: sacct prints one of 128 and more 128 too small."
    name: str = ""
    cancelled_by: str = ""
    "The user who cancelled it, mostly as a number."
    usage: Usage | None = None
    unaccounted: bool = False
    "Whether it ended on a cluster without accounting, so that no more will be known of it."
    submitted: str = ""
    folder: str = ""
    comment: str = ""
    "These three only until `is_of` has compared them."

    @property
    def ended(self) -> bool:
        """Whether it will not run any more."""
        return self.state in ENDED or self.state == GONE

    @property
    def is_partial(self) -> bool:
        """Whether accounting has the job only because one of its steps came first.

        slurmdbd names such a record `allocation`; for a second or two it has no time limit and no folder.
        """
        return self.name == "allocation" and not self.time_limit and not self.folder

    @property
    def status_and_signal(self) -> tuple[int, int]:
        """The exit status and the signal of `1:0`; zeros if there are none."""
        return _status_and_signal(self.exit_code)

    @property
    def other_status(self) -> int | None:
        """The exit status that it may have instead of the one in `exit_code`; None if that one is certain."""
        return self.status_and_signal[0] + 128 if self.is_exact is False else None

    @property
    def end(self) -> str:
        """The exit status and signal of the script, or both that are possible, as `9:0 or 137:0`.

        Empty if Slurm ended it: its record then has anything, such as 0:1 of a job whose node failed.
        """
        other = f" or {self.other_status}:0" if self.other_status else ""
        return self.exit_code + other if self.state in ("COMPLETED", "FAILED") else ""

    def with_exact(self, codes: Iterable[str]) -> "JobState":
        """The same state with the one of these exit codes that sacct would print like its own, if one is."""
        status, _ = self.status_and_signal
        exact = {code for code in codes if _as_status(code) in (status, status + 128)} - {"0:0"}
        if self.is_exact is not False or len({*map(_as_status, exact)}) != 1:
            return self
        return structs.replace(self, exit_code=f"{_as_status(exact.pop())}:0", is_exact=True)


def is_of(state: JobState, job: JobId) -> bool:
    """Whether a record is of this job, and not of another one that had its id before or after.

    The folder and the comment have the key. A record with neither, such as a partial one, is believed if it
    is not older than the submission, and has the name of the job or none.
    """
    identity = job.identity
    if identity is None:
        return True
    if identity.key and (state.folder or COMMENT in state.comment):
        # A folder with the separator in it has shifted the others.
        return identity.key in f"{state.folder}|{state.comment}|{state.name}"
    is_named = state.name == identity.name or state.is_partial
    return is_named and not _is_before(state.submitted or state.start, identity.submitted)


def _is_before(time: str, submitted: str) -> bool:
    """Whether a time of the site is before one in UTC, in any time zone and with any usual clock."""
    try:
        return datetime.fromisoformat(time) < datetime.fromisoformat(submitted).replace(tzinfo=None) - _ZONES
    except (ValueError, TypeError):  # it is not a time, or has an offset
        return False


def _status_and_signal(code: str) -> tuple[int, int]:
    match = _CODE.fullmatch(code)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _as_status(code: str) -> int:
    """The exit status of a shell or of srun after a command that ended with this code."""
    status, signal = _status_and_signal(code)
    return 128 + signal if signal else status


def job_id(text: str) -> JobId | None:
    """The job in the reply of `sbatch --parsable`: the last line that is an id; None if there is none."""
    matches = [match for line in text.splitlines() if (match := _JOB_ID.fullmatch(line.strip()))]
    return JobId(matches[-1]["number"], matches[-1]["cluster"] or "") if matches else None


def squeue(text: str) -> tuple[JobState, ...]:
    """The jobs in the reply to `commands.squeue`."""
    return tuple(JobState(**row) for row in _rows(text, SQUEUE))


def sacct(text: str) -> tuple[JobState, ...]:
    """The jobs in the reply to `commands.sacct`, each with the memory of its largest step.

    The rows of the steps of a job, such as `12.batch`, follow the row of the job.
    """
    jobs: list[dict[str, Any]] = []
    for row in _rows(text, SACCT):
        if "." not in row["id"]:
            jobs.append(row | {"used": ""})
        elif jobs and row["id"].startswith(f"{jobs[-1]['id']}."):
            jobs[-1]["used"] = max(jobs[-1]["used"], row["used"], key=_memory)
    return tuple(map(_accounted, jobs))


def _memory(used: str) -> int:
    return usage("", "", used).memory_used or 0


def _accounted(row: dict[str, Any]) -> JobState:
    state, _, by = row["state"].partition(" by ")
    used = usage(row["allocated"], row["cpu_time"], row["used"])
    plain = {name: row[name] for name in row if name in JobState.__struct_fields__}
    accounted = JobState(**plain | {"state": state.rstrip("+")}, cancelled_by=by, usage=used)
    status, signal = accounted.status_and_signal
    may_be_more = accounted.state == "FAILED" and accounted.exit_code and not signal and status < 128
    return structs.replace(accounted, is_exact=False) if may_be_more else accounted


class _Number(Struct, frozen=True):
    """A number as Slurm writes it in JSON since 23.11."""

    number: int = 0


class _Code(Struct, frozen=True):
    return_code: _Number | int | None = None


class _Array(Struct, frozen=True):
    job_id: int = 0
    task_id: _Number | int | None = None


class _Het(Struct, frozen=True):
    job_id: _Number | int | None = None
    job_offset: _Number | int | None = None


class _Record(Struct, frozen=True):
    job_id: int
    exit_code: _Code
    name: str = ""
    working_directory: str = ""
    array: _Array = _Array()
    het: _Het = _Het()

    @property
    def state(self) -> JobState:
        array, het = self.array.job_id, _number(self.het.job_id)
        plain = f"{het}+{_number(self.het.job_offset)}" if het else f"{self.job_id}"
        return JobState(
            id=f"{array}_{_number(self.array.task_id)}" if array else plain,
            state="",
            exit_code=f"{_number(self.exit_code.return_code)}:0",
            name=self.name,
            folder=self.working_directory,
        )


class _Records(Struct, frozen=True):
    jobs: list[_Record]


def _number(value: _Number | int | None) -> int:
    return value.number if isinstance(value, _Number) else value or 0


def exit_codes(text: str) -> tuple[JobState, ...]:
    """The jobs in the reply to `commands.exit_codes`, with what it shows of their exact exit codes."""
    with suppress(DecodeError, RecursionError, UnicodeError):
        return tuple(one.state for one in json.decode(text[text.find("{") :], type=_Records).jobs)
    rows = (read_row(line, EXIT_CODES) for line in text.splitlines())
    return tuple(JobState(state="", **row) for row in rows if row and _TASK_ID.fullmatch(row["id"]))


def scontrol(text: str) -> tuple[JobState, ...]:
    """The jobs in the reply to `commands.scontrol`: one paragraph each."""
    paragraphs = re.split(r"\n\s*\n", text)
    return tuple(state for state in map(_paragraph, paragraphs) if state)


def log_path(text: str, *, stderr: bool = False) -> str | None:
    """The file of a job's stdout, or stderr, from the reply to `commands.scontrol`; None if not in it."""
    return _search(rf"^ +Std{'Err' if stderr else 'Out'}=(/.*)$", text) or None


def trial(text: str) -> str:
    """The reply of `sbatch --test-only`, in words."""
    match = _TEST_REPLY.search(text)
    if not match:
        return complaint(text, "sbatch")
    start, processors, nodes, partition = match.groups()
    where = f" in partition {partition}" if partition else ""
    return f"it would start at {start} on {nodes}{where}, with {counted(int(processors), 'processor')}"


def trial_start(text: str) -> tuple[str, str]:
    """The start and the partition in the reply of `sbatch --test-only`; empty if it has none.

    The start is in the site's local time.
    """
    match = _TEST_REPLY.search(text)
    return (match[1], match[4] or "") if match else ("", "")


def complaint(text: str, program: str) -> str:
    """The error messages of a program, without their prefixes and without the output of a shell profile."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(f"{program}: ")]
    words = [re.sub(rf"^{re.escape(program)}: ((error|fatal): )?", "", line) for line in own or lines[-1:]]
    return shortened("; ".join(dict.fromkeys(words))) or "it gave no reason"


def _rows(text: str, fields: tuple[Field, ...]) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):  # a comment may have other characters that `splitlines` divides at
        row = read_row(line, fields)
        if row and _TASK_ID.fullmatch(row["id"]) and _STATE.fullmatch(row["state"]):
            yield row | {"state": _WORDS.get(row["state"], row["state"])}


# A heterogeneous job has further fields before its name.
_HEAD = re.compile(
    rf"^JobId=({_NUMBER})(?: HetJobId=({_NUMBER}) HetJobOffset=({_NUMBER}))?"
    rf"(?: ArrayJobId=({_NUMBER}) ArrayTaskId=([0-9,:%.-]{{1,4096}}))?"
    r"(?: (?!JobName=)\w{1,32}=\S{1,256}){0,8} JobName=(.*)$",
    re.MULTILINE | re.ASCII,
)
_SCONTROL = {
    "state": r"^ +JobState=([A-Z_]+) Reason=\S+",
    "reason": r"^ +JobState=[A-Z_]+ Reason=(\S+)",
    "elapsed": r"^ +RunTime=(\S+)",
    "time_limit": r"^ +RunTime=\S+ TimeLimit=(\S+)",
    "start": r"^ +StartTime=(\S+)",
    "nodes": r"^ +NodeList=(\S+)",
    "exit_code": r"^ +Requeue=.* ExitCode=([0-9]{1,3}:[0-9]{1,3})",
    "submitted": r"^ +SubmitTime=(\S+)",
    "folder": r"^ +WorkDir=(.*)$",
    "comment": r"^ +Comment=(.*)$",
}
"Where scontrol shows the attributes of a job."


def _paragraph(text: str) -> JobState | None:
    head = _HEAD.search(text)
    found: dict[str, Any] = {
        attribute: value(_search(pattern, text)) for attribute, pattern in _SCONTROL.items()
    }
    if not head or not found["state"]:
        return None
    if (
        _search(_SCONTROL["start"], text) == "Unknown"
    ):  # for one that never started, scontrol counts from 1970
        found["elapsed"] = "00:00:00"
    number, het, offset, array, task, name = head.groups()
    plain = f"{het}+{offset}" if het else number
    return JobState(id=f"{array}_{task}" if array else plain, name=name, **found)


def _search(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""
