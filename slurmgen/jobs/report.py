"""Report: all that is known of a job after it was submitted, as --json prints it; and as lines. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from slurmgen.jobs.failure import Why, status_and_signal
from slurmgen.jobs.slurm_client import GONE, UNKNOWN, ended, gone, line, outcome
from slurmgen.slurm import pending_reasons, sizes
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.slurm.usage import Usage, whole_seconds
from slurmgen.text import counted, visible

MOST_TASKS = 20
"Tasks of an array that are shown one by one."
_BY_SLURM = {
    "OUT_OF_MEMORY": 9,
    "TIMEOUT": 15,
    "DEADLINE": 15,
    "CANCELLED": 15,
    "PREEMPTED": 15,
    "REVOKED": 15,
}
"The signal with which Slurm ends such a job, whatever its record says."


class Task(Struct, frozen=True, kw_only=True):
    """One task of a job array."""

    id: str
    state: str
    exit_code: int | None
    signal: int | None
    reason: str
    elapsed: int | None
    nodes: str


class Report(Struct, frozen=True, kw_only=True):
    """All that is known of one job. Every key is always there; times are in seconds, sizes in MiB."""

    id: str
    name: str
    site: str
    via: str
    cluster: str = ""
    state: str
    "Slurm's; GONE where nobody knows the job any more, UNKNOWN where who might know did not answer."
    ended: bool
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    "Why it waits, in Slurm's word."
    waits: str = ""
    "And in ours."
    why: Why | None = None
    start: str = ""
    "When it started or is expected to, as the site's clock has it."
    elapsed: int | None = None
    time_limit: int | None = None
    nodes: str = ""
    usage: Usage | None = None
    tasks: tuple[Task, ...] = ()
    "Of an array; else none."
    submitted: str = ""
    folder: str = ""
    log: str = ""
    commit: str = ""
    dirty: bool = False
    "Whether the project differed from that commit."
    key: str = ""
    "Of the submission."
    command: str = ""
    "The command line that submitted it, without the values of --env."
    directory: str = ""
    "Where that was typed."
    error: str = ""
    "Why nothing is known: the site was not reached, or it is not known whether there is a job."
    remembered: str = ""
    "Why this is what Slurm said earlier: nobody was asked or reached, or it knows the job no more."

    @property
    def code(self) -> int:
        """The exit code that stands for how it ended, as a shell has it: 128 + signal; 3 if unknown."""
        if not self.ended or self.state == GONE:
            return 3
        if self.state == "COMPLETED":
            return 0
        return self.exit_code or (128 + self.signal if self.signal else 1)


def report(
    job: JobId,
    states: Sequence[JobState],
    site: str,
    via: str,
    *,
    why: Why | None = None,
    young: bool = False,
    **of_record: Any,
) -> Report:
    """What Slurm said of a job, as a report.

    Args:
        job: the job that was asked for.
        states: Slurm's answer.
        site: its site.
        via: the way there.
        why: why it failed.
        young: it was submitted so shortly ago that it cannot be gone.
        of_record: what the ledger knows, such as name and folder; and why that is all, `remembered`.
    """
    young = young and not states
    state = UNKNOWN if young else outcome(states)
    shown = next((one for one in states if one.state == state), JobState(id=job.number, state=state))
    return Report(
        **_of_each(shown) | of_record | {"name": of_record.get("name") or shown.name},
        id=job.number,
        site=site,
        via=via,
        cluster=job.cluster,
        state=state,
        ended=ended(states) and state != UNKNOWN,
        waits=pending_reasons.words(shown.reason) if state == "PENDING" else "",
        why=why,
        start=shown.start,
        time_limit=whole_seconds(shown.time_limit),
        usage=shown.usage if shown.ended else None,
        tasks=tuple(map(_task, states)) if _is_array(job, states) else (),
        error=_error(shown, young=young),
    )


def lines(states: Sequence[JobState], told: Report, where: str) -> Iterator[str]:
    """A report in lines for a terminal."""
    yield from map(visible, _head(states, told, where))
    yield from (f"  {visible(text)}" for text in _more(told))


def origin(told: Report) -> Iterator[str]:
    """Where a job of the ledger comes from, in lines for a terminal; nothing of another job."""
    if not told.submitted:
        return
    dirty = "with uncommitted changes (dirty)" if told.dirty else "clean"
    words = (
        ("site", told.site if told.via != "twin" else f"the twin of {told.site} on this machine"),
        ("submitted", local_time(told.submitted)),
        ("commit", told.commit and f"{told.commit}, {dirty}"),
        ("command", told.command),
        ("typed in", told.directory),
    )
    yield from (visible(f"  {name}: {text}") for name, text in words if text)


def local_time(utc: str) -> str:
    """A time of the ledger in the time zone of this machine; the text itself if it is none."""
    try:
        return datetime.fromisoformat(utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return utc


def _head(states: Sequence[JobState], told: Report, where: str) -> Iterator[str]:
    if told.error:
        yield f"job {told.id} is {told.state}: {told.error}"
    elif not states:
        yield gone(told.id, where)
    elif told.tasks:
        counts = Counter(one.state for one in states)
        tally = ", ".join(f"{number} {state}" for state, number in counts.most_common())
        yield f"job {told.id} ({told.name}) is {told.state}, an array of {len(states)}: {tally}"
        # What is not as it should be comes first.
        first = sorted(states, key=lambda one: (one.state in {"COMPLETED", "PENDING"}, one.state))
        yield from (f"  {line(one)}" for one in first[:MOST_TASKS])
        if len(states) > MOST_TASKS:
            yield f"  and {len(states) - MOST_TASKS} more; --json has them all"
    else:
        yield line(states[0])


def _more(told: Report) -> Iterator[str]:
    if told.waits:
        yield f"why: {told.waits}"
    if told.state == "PENDING" and told.start:
        yield f"expected to start at {told.start}"
    if told.why:
        yield f"why: {told.why.what}"
        yield from (f"log: {text}" for text in [told.why.line] if text)
        yield from (f"do: {text}" for text in [told.why.todo] if text)
    if used := ", ".join(_used(told)):
        yield f"used: {used}"
    if told.remembered:
        yield f"remembered: {told.remembered}"


def _used(told: Report) -> Iterator[str]:
    """What it used of what it had."""
    had = told.usage
    if had is None or told.tasks or not told.elapsed:
        return
    if had.memory and had.memory_used:
        yield f"memory {sizes.canonical(had.memory_used)} of {sizes.canonical(had.memory)}"
    if had.cpus and had.cpu_seconds is not None:
        yield f"{100 * had.cpu_seconds / (told.elapsed * had.cpus):.0f} % of {counted(had.cpus, 'CPU')}"
    if told.time_limit:
        yield f"{100 * told.elapsed / told.time_limit:.0f} % of its time"
    if had.gpus:
        yield f"it had {counted(had.gpus, 'GPU')}"


def _error(shown: JobState, *, young: bool) -> str:
    """Why nothing is known of a job that is UNKNOWN."""
    if young:
        return "nobody there knows it yet; ask again"
    return shown.reason if shown.state == UNKNOWN else ""


def _is_array(job: JobId, states: Sequence[JobState]) -> bool:
    return any(one.id != job.number for one in states)


def _task(one: JobState) -> Task:
    return Task(id=one.id, state=one.state, **_of_each(one))


def _of_each(one: JobState) -> dict[str, Any]:
    """What is told alike of a job and of a task of an array."""
    status, signal = _ending(one)
    return {
        "exit_code": status,
        "signal": signal,
        "reason": "" if one.ended else one.reason,
        "elapsed": whole_seconds(one.elapsed),
        "nodes": one.nodes,
    }


def _ending(one: JobState) -> tuple[int | None, int | None]:
    """Its exit code, and the signal that ended it; None where there is none."""
    if not one.ended:
        return None, None
    status, signal = status_and_signal(one)
    if one.state in _BY_SLURM:
        return None, _BY_SLURM[one.state]
    # 0:53 is slurmd's own, and no signal's number.
    return (None, signal) if signal and signal != 53 else (status, None)
