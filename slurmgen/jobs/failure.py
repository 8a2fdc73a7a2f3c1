"""Why a job failed: from Slurm's record, and from the end of its log. Pure.

The first cause counts. When one rank ends, the others lose their connections to it and are then terminated;
what they report of that explains the failure only where nothing else does.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from slurmgen.jobs.failure_evidence import Ended, Raised, exceptions, last_run, line_of, reports
from slurmgen.jobs.failure_patterns import (
    CONSEQUENCE,
    DECISIVE_SIGNS,
    LAST_SIGNS,
    MORE_MEMORY,
    OWN_SIGNS,
    RUN_AGAIN,
    SIGNS,
    TIMED_OUT,
    Sign,
)
from slurmgen.slurm import sizes
from slurmgen.slurm.replies import JobState
from slurmgen.slurm.usage import in_one_form

LOG_END = 65_536
"Bytes of a log's end that are searched, after the frames of tracebacks are left out."
NO_FOLDER = "slurmgen: the folder of this log does not exist any more; it was pruned or moved"
"The end of such a log."
_LONGEST = 300
"Characters of a line that are shown."


class Why(Struct, frozen=True):
    """Why a job failed."""

    what: str
    "The cause, in words."
    todo: str = ""
    "What to do about it; empty if that is not known."
    line: str = ""
    "The line of the log that shows it."


SIGNALS = {
    4: ("ended with SIGILL: a program was built for another CPU", "Build it on a node of this partition."),
    6: ("ended with SIGABRT: a program called abort()", "The lines above in the log may say why."),
    7: (
        "ended with SIGBUS, usually because shared memory (/dev/shm) ran out",
        "Use fewer data-loader workers.",
    ),
    8: ("ended with SIGFPE: a program divided by zero", "PYTHONFAULTHANDLER=1 shows where."),
    9: ("ended with SIGKILL, which usually means that memory ran out", MORE_MEMORY),
    11: (
        "ended with SIGSEGV: a program crashed",
        "Usually a compiled library that does not fit; PYTHONFAULTHANDLER=1 shows where.",
    ),
    15: ("ended with SIGTERM: another program terminated it", ""),
}
"What each signal means for the process that it ended, and what to do."
_ABORTED, _KILLED, _TERMINATED = 6, 9, 15
_STATUSES = {126: "a command of its script cannot be executed", 127: "a command of its script was not found"}
_EXPORT = re.compile(r"\s(--exp(?:o|or|ort)?[= ](\S{1,200}))")


def why(job: JobState, log: str = "", seen: Why | None = None) -> Why | None:
    """Why a job failed, as far as its record or the end of its log shows it; None if it did not.

    Args:
        job: Slurm's record of the job.
        log: the end of its log; nothing if there is no log any more.
        seen: the reason that was found earlier, when there may have been a log.
    """
    if not job.ended or job.state == "COMPLETED":
        return None
    if job.state != "FAILED":
        return _recorded(job)
    if log.startswith(NO_FOLDER):
        known = _out_of_memory(job) or seen or _not_started(job)
        return known or structs.replace(_by_exit_code(job), line=NO_FOLDER.partition(" ")[2])
    earlier = None if log else seen
    return (
        _out_of_memory(job)
        or earlier
        or _not_started(job)
        or _logged(log, _only_node(job))
        or _by_exit_code(job)
    )


def with_logged_code(job: JobState, log: str) -> JobState:
    """The record with its exact exit code, where a process that ended with it shows it in the log."""
    if job.is_exact is not False:
        return job
    log = last_run(log)
    ended = (f"{one.status}:{one.signal}" for one in reports(log))
    # Python exits with 1 after an exception.
    return job.with_exact([*ended, *("1:0" for _ in exceptions(log))])


NEVER_SATISFIED = Why(
    "a job that it depends on did not end as required, so that it never started",
    "Submit that job again, then this one; or this one with --after any:JOB.",
)


def _recorded(job: JobState) -> Why:
    if job.state == "CANCELLED" and job.reason == "DependencyNeverSatisfied":
        return NEVER_SATISFIED
    limit = f" of {in_one_form(job.time_limit)}" if job.time_limit else ""
    node = f" ({job.nodes})" if job.nodes else ""
    by = f" by user {job.cancelled_by}" if job.cancelled_by else ""
    again = "Submit it again; with --requeue, a script that loads its checkpoint continues (docs/requeue.md)."
    words = {
        "TIMEOUT": (
            f"it reached its time limit{limit}",
            RUN_AGAIN,
        ),
        "OUT_OF_MEMORY": (_memory(job), MORE_MEMORY),
        "NODE_FAIL": (f"one of its nodes failed{node}", again),
        "BOOT_FAIL": (f"one of its nodes did not start{node}", again),
        "PREEMPTED": ("a job of higher priority took its place", again),
        "CANCELLED": (f"it was cancelled{by}", ""),
        "DEADLINE": ("it could not end before its --deadline", ""),
        "REVOKED": ("another cluster runs it", ""),
    }
    return Why(*words.get(job.state, (f"Slurm reports {job.state}", "")))


def _memory(job: JobState) -> str:
    limit, used = (job.usage.memory, job.usage.memory_used) if job.usage else (None, None)
    of = f" than the {sizes.canonical(limit)} it had" if limit else " than it had"
    measured = f"; Slurm measured {sizes.canonical(used)}" if used else ""
    return f"it used more memory{of}{measured}"


def _out_of_memory(job: JobState) -> Why | None:
    """The reason for a job that Slurm killed for its memory and, having no cgroups, calls FAILED."""
    limit, used = (job.usage.memory, job.usage.memory_used) if job.usage else (None, None)
    is_killed = 9 in (_signal(job), (job.other_status or 0) - 128)
    if limit and used and used > limit and is_killed:
        return Why(_memory(job), MORE_MEMORY)
    return None


def is_not_found(reason: Why) -> bool:
    """Whether a job failed because a program was not found."""
    return reason.what.startswith(("command not found", _STATUSES[127]))


def with_lost_environment(reason: Why, submit_line: str) -> Why:
    """The reason why a program was not found, with the option that kept variables such as PATH from the job.

    Args:
        reason: the reason.
        submit_line: the arguments of sbatch, also those that a site's wrapper of it added.
    """
    options = _EXPORT.findall(submit_line)
    if not options or "ALL" in options[-1][1].split(","):
        return reason
    what = f"{reason.what}; it was submitted with {options[-1][0]}, which srun follows too (SLURM_EXPORT_ENV)"
    return Why(
        what, "Add --export=ALL to each srun, and set PATH or load modules in the script.", reason.line
    )


def _signal(job: JobState) -> int:
    """The signal that ended the script, or a command in it: a shell then exits with 128 + N."""
    status, signal = job.status_and_signal
    return signal or (status - 128 if status - 128 in SIGNALS else 0)


def _not_started(job: JobState) -> Why | None:
    # No job ends with 53 by itself: slurmd could not open the log, and so could not explain it there.
    if job.status_and_signal != (0, 53):
        return None
    return Why(
        "Slurm could not start it: its folder or that of its log does not exist, or is not writable",
        "Slurm makes no folder for a log; check that both exist on the nodes, and check your quota.",
    )


def _only_node(job: JobState) -> str:
    """The node of a job that has one; else empty."""
    return "" if re.search(r"[\s\[,]", job.nodes) else job.nodes


def _logged(log: str, only_node: str) -> Why | None:
    """The first cause that a log shows."""
    log = last_run(log)
    raised, ended = list(exceptions(log)), reports(log, only_node)
    causes = [one for one in raised if not _is_consequence(one)]
    lost = {one.rank for one in raised if one.rank is not None}.difference(one.rank for one in causes)
    failed = [one for one in ended if not _is_survivor(one, lost)]
    steps: tuple[Callable[[], Why | None], ...] = (
        lambda: _shown(OWN_SIGNS, log),
        lambda: _of(_killed(ended), _shown(DECISIVE_SIGNS, log)),
        lambda: _raised_by_rank([one for one in causes if one.rank is not None], ended),
        lambda: _signalled(failed, log, by_launcher=False),
        lambda: _raised([one for one in causes if one.rank is None], failed),
        lambda: _of(_unexplained(failed), _shown(SIGNS, log)),
        lambda: _exited(failed),
        lambda: _signalled(failed, log, by_launcher=True),
        lambda: _signalled(ended, log, by_launcher=False),
        lambda: _shown(LAST_SIGNS, log),
        lambda: _raised(raised, ended),
    )
    return next(filter(None, (step() for step in steps)), None)


def _is_consequence(raised: Raised) -> bool:
    """Whether an exception follows from the end of another process."""
    return bool(CONSEQUENCE.search(raised.line)) and not _shown(SIGNS, raised.line)


def _is_survivor(ended: Ended, lost: Iterable[int]) -> bool:
    """Whether a process ended because others had: it was terminated, or is of a rank that lost them."""
    return ended.signal == _TERMINATED or (bool(ended.status) and any(map(ended.may_be, lost)))


def _raised_by_rank(causes: Sequence[Raised], ended: Iterable[Ended]) -> Why | None:
    """The exception of the rank that a launcher saw failing first, else the first one in the log."""
    reported = ((one, report) for report in ended for one in causes if report.may_be(one.rank))
    first, report = next(reported, (next(iter(causes), None), None))
    if first is None:
        return None
    who = f"rank {first.rank}{report.on_node if report else ''}"
    return _of(Ended(who, first.line), _meaning(first))


def _raised(causes: Iterable[Raised], ended: Iterable[Ended]) -> Why | None:
    """What the first of some exceptions means, with the process that ended, if that is known."""
    return next((_of(_unexplained(ended), _meaning(one)) for one in causes), None)


def _meaning(raised: Raised) -> Why:
    return _shown(SIGNS, raised.line) or Why("Python raised an error", "", raised.line)


def _killed(ended: Iterable[Ended]) -> Ended | None:
    """The first process that was killed, as Slurm does when memory runs out."""
    return next((one for one in ended if one.signal == _KILLED), None)


def _unexplained(ended: Iterable[Ended]) -> Ended | None:
    """The first process that ended with an exit code."""
    return next((one for one in ended if one.status), None)


def _of(ended: Ended | None, shown: Why | None) -> Why | None:
    """An explanation with the process that it is about, if that is known."""
    return Why(f"{shown.what} ({ended.who})", shown.todo, shown.line) if shown and ended else shown


def _signalled(ended: Iterable[Ended], log: str, *, by_launcher: bool) -> Why | None:
    """The first process that ended with a signal, unless it waited for others until a timeout."""
    timed_out = bool(TIMED_OUT.search(log))
    for one in ended:
        waited = timed_out and (one.by_launcher or one.signal in (_ABORTED, _TERMINATED))
        if one.signal and one.by_launcher == by_launcher and not waited:
            return _by_signal(one.who, one.signal, one.line)
    return None


def _exited(ended: Iterable[Ended]) -> Why | None:
    """The first process that ended with an exit code, of which nothing else is known."""
    one = next((one for one in ended if one.status and not one.by_launcher), None)
    return Why(f"{one.who} ended with exit code {one.status}", "", one.line) if one else None


def _shown(signs: Iterable[Sign], text: str) -> Why | None:
    """What the first sign of the table that is in the text means."""
    for sign in signs:
        if match := sign.search(text):
            value = next(filter(None, match.groups()), "")[:_LONGEST]
            return Why(sign.what.replace("{0}", _quoted(value)), sign.todo, line_of(match))
    return None


def _quoted(value: str) -> str:
    """A text of the log within a sentence: in quotes unless it is one word."""
    return f"“{re.sub('[“”]', chr(34), value)}”" if re.search(r"\s", value) else value


def _by_signal(who: str, number: int, line: str = "") -> Why:
    what, todo = SIGNALS.get(number, (f"ended with signal {number}", ""))
    return Why(f"{who} {what}", todo, line)


def _by_exit_code(job: JobState) -> Why:
    status, number = job.status_and_signal[0], _signal(job)
    if job.other_status:
        return Why(f"its script ended with exit code {f'{status} or ' if status else ''}{job.other_status}")
    if number:
        return _by_signal("it", number)
    if status in _STATUSES:
        return Why(_STATUSES[status])
    return Why(f"its script ended with exit code {status}" if status else "Slurm gives no reason")
