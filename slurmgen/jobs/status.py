"""Asking what became of jobs: one login for each site, and one question for all its jobs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct, structs

from slurmgen.errors import ConfigError, SlurmgenError, TwinError
from slurmgen.jobs.failure import Why, why
from slurmgen.jobs.final_states import as_text, from_text, recalled, why_as_text, why_from_text
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.log_files import ends
from slurmgen.jobs.logs import log_path, recorded_logs
from slurmgen.jobs.report import Report, report
from slurmgen.jobs.slurm_client import GONE, UNKNOWN, states_of
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import ENDED, JobState

YOUNG = 60.0
"Seconds after its submission in which a job that nobody knows is not gone."
FAILURES = ENDED - {"COMPLETED"}
Reach = Callable[[Route], Transport]
Found = TypeVar("Found")


class Named(Struct, frozen=True):
    """A job, the way to it, and its record if slurmgen submitted it."""

    job: JobId
    way: Route
    record: Record | None = None

    @property
    def log(self) -> str:
        """Where its log is; nothing if that is not known, or if each task of it has one."""
        try:
            return (
                log_path(self.record.folder, self.record.output, self.record.name, str(self.job))
                if self.record
                else ""
            )
        except SlurmgenError:
            return ""

    @property
    def final(self) -> tuple[JobState, ...]:
        """How it ended, if that was seen once."""
        return from_text(self.record.final, self.job) if self.record else ()

    @property
    def is_settled(self) -> bool:
        """Whether all is known of how it ended, so that nobody need be asked."""
        return bool(self.final) and (self.why is not None or all(one.state != "FAILED" for one in self.final))

    @property
    def why(self) -> Why | None:
        """Why it failed, if that was seen once."""
        return why_from_text(self.record.why) if self.record else None


class Answer(Struct, frozen=True):
    """What is known of one job."""

    named: Named
    report: Report
    states: tuple[JobState, ...] = ()


def by_way(jobs: Iterable[Named]) -> dict[Route, list[Named]]:
    """The jobs of each way, in their order."""
    found: dict[Route, list[Named]] = {}
    for one in jobs:
        found.setdefault(one.way, []).append(one)
    return found


def each(jobs: Sequence[Named], reach: Reach, do: Callable[[Transport, Named], Found]) -> list[Found]:
    """What `do` gives for each job, in their order.

    One login for each site, and one of them at a time: all jobs of the site named first, then of the next.
    """
    found: dict[Named, Found] = {}
    for way, some in by_way(jobs).items():
        with reach(way) as far:
            found |= {one: do(far, one) for one in some}
    return [found[one] for one in jobs]


def ask(jobs: Sequence[Named], reach: Reach, *, lenient: bool = False) -> list[Answer]:
    """What became of jobs, in their order. A site that is not reached does not hide the others.

    Raises:
        SlurmgenError: all are at one site, it was not reached, and of none it is known how it ended;
            never if `lenient`.
    """
    ways = by_way(jobs)
    found: dict[Named, Answer] = {}
    for way, some in ways.items():
        try:
            with reach(way) as far:
                answers = answers_of(far, some)
        except SlurmgenError as error:
            if len(ways) == 1 and not lenient and not any(one.final for one in some):
                raise
            answers = [unreached(one, error) for one in some]
        found |= {one.named: one for one in answers}
    return [found[one] for one in jobs]


def answers_of(far: Transport, jobs: Sequence[Named], *, explain: bool = True) -> list[Answer]:
    """What became of the jobs of one site.

    Args:
        far: the site.
        jobs: which.
        explain: read the ends of the logs of those that failed.

    Raises:
        CommandFailed: Slurm did not answer.
    """
    said = states_of(far, [one.job for one in jobs])
    known = {one.job: recalled(one.final, said[one.job]) for one in jobs}
    reasons = _reasons(far, jobs, {job: states for job, (states, _) in known.items()}) if explain else {}
    return [answer(one, known[one.job][0], reasons.get(one.job), known[one.job][1]) for one in jobs]


def remembered(one: Named, reason: str) -> Answer | None:
    """What was seen of a job once it had ended, if anything; `reason` is why nobody is asked now."""
    failed = (why(state, seen=one.why) for state in one.final)
    return answer(one, one.final, next(filter(None, failed), None), reason) if one.final else None


def remember(answers: Iterable[Answer]) -> None:
    """Keep in the ledger how jobs ended and why they failed, and forget it of one that came back."""
    seen = {
        one.named.record: (as_text(one.states), why_as_text(one.report.why))
        for one in answers
        if one.states and _is_whole(one.named)
    }
    changed = {record: end for record, end in seen.items() if record and end != (record.final, record.why)}
    if changed:
        with suppress(ConfigError):  # they are asked for again, and nothing is lost
            Ledger().remember(changed)


def _is_whole(one: Named) -> bool:
    """Whether it is all of what was submitted, and not one task of it, nor a job of that id elsewhere."""
    record, way = one.record, one.way
    if record is None or record.id != one.job.number:
        return False
    return (record.site, record.via, record.host) == (way.site, way.via, way.host)


def unreached(one: Named, error: SlurmgenError) -> Answer:
    """The answer for a job whose site was not reached; one on a twin that is down is gone with it."""
    if kept := remembered(one, f"not reached: {error.fact}"):
        return kept
    is_gone = isinstance(error, TwinError)
    unknown = report(one.job, (), one.way.site, one.way.via, **_of_record(one))
    state = GONE if is_gone else UNKNOWN
    return Answer(
        one, structs.replace(unknown, state=state, ended=is_gone, error=f"not reached: {error.fact}")
    )


def answer(one: Named, states: tuple[JobState, ...], reason: Why | None = None, memory: str = "") -> Answer:
    """What Slurm said of a job, beside what its record knows.

    Args:
        one: the job.
        states: what Slurm said.
        reason: why it failed; else what was seen earlier counts.
        memory: why Slurm said that earlier, and not now.
    """
    if reason is None and (not states or any(state.state in FAILURES for state in states)):
        reason = one.why
    own = {**_of_record(one), "remembered": memory}
    young = _is_young(one.record)
    told = report(one.job, states, one.way.site, one.way.via, why=reason, young=young, **own)
    return Answer(one, told, states)


def _of_record(one: Named) -> dict[str, Any]:
    if one.record is None:
        return {"name": ""}
    return {
        "name": one.record.name,
        "submitted": one.record.submitted,
        "folder": one.record.folder,
        "log": one.log,
        "commit": one.record.commit,
        "dirty": one.record.dirty,
        "key": one.record.key,
        "command": one.record.command,
        "directory": one.record.directory,
    }


def _reasons(
    far: Transport, jobs: Sequence[Named], states: dict[JobId, tuple[JobState, ...]]
) -> dict[JobId, Why | None]:
    """Why jobs failed; their logs are read in one go."""
    failed = {
        one: next((state for state in states[one.job] if state.ended and state.state != "COMPLETED"), None)
        for one in jobs
    }
    logs = {one: _logs_of(one, state) for one, state in failed.items() if state and state.state == "FAILED"}
    paths = list(dict.fromkeys(path for files in logs.values() for path in files))
    texts = dict(zip(paths, ends(far, paths), strict=True)) if paths else {}
    return {
        one.job: why(state, "\n".join(texts[path] for path in logs.get(one, ())).strip(), one.why)
        for one, state in failed.items()
        if state
    }


def _logs_of(one: Named, state: JobState) -> tuple[str, ...]:
    """The logs of a job, or of the task of it that the state belongs to."""
    return recorded_logs(one.record, state.id) if one.record else ()


def _is_young(record: Record | None) -> bool:
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(record.submitted) if record else None
    except (ValueError, TypeError):
        return False
    return age is not None and 0 <= age.total_seconds() < YOUNG
