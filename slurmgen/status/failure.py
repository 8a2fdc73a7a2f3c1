"""Why a job failed, from its states, its logs and its steps.

One rule chooses among the evidence: what Slurm says of memory; else the earliest failure of a rank; else what
only follows from another failure, such as a lost connection; else the exit code. Evidence that is quoted, is
in a warning, or is followed by progress does not count.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from slurmgen.slurm import units
from slurmgen.slurm.replies import JobState, in_one_form
from slurmgen.status.evidence import LONGEST, Ended, Log, Piece, Raised, Seen, reports
from slurmgen.status.failure_patterns import (
    AGAIN,
    CONSEQUENCE,
    MORE_MEMORY,
    RUN_AGAIN,
    SIGNS,
    TIMED_OUT,
    Sign,
)

LOG_END = 65_536
"Bytes of a log's end that are searched, after the frames of tracebacks are left out."
NO_FOLDER = "slurmgen: the folder of this log does not exist any more; it was pruned or moved"
"The end of such a log."


class Why(Struct, frozen=True):
    """Why a job failed."""

    what: str
    "The cause, in words."
    todo: str = ""
    "What to do about it; empty if that is not known."
    line: str = ""
    "The line of the log that shows it."
    number: int | None = None
    "The number of that line in its file, if it is known."
    file: str = ""
    "The file of that line, if it is known."
    rank: int | None = None
    "The rank that failed, if it is known."
    node: str = ""
    "Its node."


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


def why(job: JobState, log: Sequence[Piece] = (), seen: Why | None = None) -> Why | None:
    """Why a job failed, as far as its record or the end of its log shows it; None if it did not.

    Args:
        job: Slurm's record of the job.
        log: the ends of its log and of its file of stderr; nothing if there are none any more.
        seen: the reason that was found earlier, when there may have been a log.
    """
    if not job.ended or job.state == "COMPLETED":
        return None
    if job.state != "FAILED":
        return _recorded(job)
    if any(piece.text.startswith(NO_FOLDER) for piece in log):
        known = _out_of_memory(job) or seen or _not_started(job)
        return known or structs.replace(_by_exit_code(job), line=NO_FOLDER.partition(" ")[2])
    earlier = None if any(piece.text.strip() for piece in log) else seen
    if known := _out_of_memory(job) or earlier or _not_started(job):
        return known
    lines, only_node = Log(log), "" if re.search(r"[\s\[,]", job.nodes) else job.nodes
    return diagnosed(lines, only_node) or _with_ending(_by_exit_code(job), lines)


def with_logged_code(job: JobState, log: Sequence[Piece]) -> JobState:
    """The record with its exact exit code, where a process that ended with it shows it in the log."""
    if job.is_exact is not False:
        return job
    lines = Log(log)
    ended = (f"{one.status}:{one.signal}" for one in reports(lines.text))
    # Python exits with 1 after an exception.
    return job.with_exact([*ended, *("1:0" for one in lines.raised if one.in_traceback)])


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
    words = {
        "TIMEOUT": (f"it reached its time limit{limit}", RUN_AGAIN),
        "OUT_OF_MEMORY": (_memory(job), MORE_MEMORY),
        "NODE_FAIL": (f"one of its nodes failed{node}", AGAIN),
        "BOOT_FAIL": (f"one of its nodes did not start{node}", AGAIN),
        "PREEMPTED": ("a job of higher priority took its place", AGAIN),
        "CANCELLED": (f"it was cancelled{by}", ""),
        "DEADLINE": ("it could not end before its --deadline", ""),
        "REVOKED": ("another cluster runs it", ""),
    }
    return Why(*words.get(job.state, (f"Slurm reports {job.state}", "")))


def _memory(job: JobState) -> str:
    limit, used = (job.usage.memory, job.usage.memory_used) if job.usage else (None, None)
    of = f" than the {units.canonical_size(limit)} it had" if limit else " than it had"
    measured = f"; Slurm measured {units.canonical_size(used)}" if used else ""
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
    todo = "Add --export=ALL to each srun, and set PATH or load modules in the script."
    return structs.replace(reason, what=what, todo=todo)


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


def diagnosed(log: Log, only_node: str = "") -> Why | None:
    """The first cause that a log shows; None if it shows none."""
    cause = _Evidence(log, only_node).cause()
    return _with_ending(cause, log) if cause and " ended with exit code " in cause.what else cause


def _with_ending(known: Why, log: Log) -> Why:
    """A reason that is not in the log, with how the log ends."""
    return structs.replace(known, line=f"{ENDS_WITH}{log.ending}") if log.ending else known


RAISED = "Python raised an error"
ENDS_WITH = "nothing in it says why; it ends with\n"
"Before the last lines of a log without a cause."

# Of these, Python or a library may say more before it ends so: after an exception in C++, or at the exit.
_SPOKEN = {_ABORTED, 11, _TERMINATED}
_BELIEVED_STEPS = 3
"Lines of progress after a traceback that other ranks may still write."
_BELIEVED_WORDS = 30
"Lines of programs after a failure of the shell, without another failure."


class _Evidence:
    """All that a log shows, and which of it is believed."""

    def __init__(self, log: Log, only_node: str) -> None:
        raised, shown = log.raised, log.signs
        start = max((one.at for one in raised if _starts_a_run(one, raised)), default=0)
        self.log = log
        self.raised = [one for one in raised if one.at >= start]
        self.ended = reports(log.text, only_node)
        reported = {self._place(one) for one in self.ended}
        self.signs = [one for one in shown if one.at >= start and one.at not in reported]
        self.causes = [one for one in self.raised if not _is_consequence(one)]
        known = {one.rank for one in self.causes}
        self.lost = {one.rank for one in self.raised if one.rank is not None} - known
        self.failed = [one for one in self.ended if not _is_survivor(one, self.lost)]
        self.timed_out = bool(TIMED_OUT.search(log.text))

    def cause(self) -> Why | None:
        """The first step that finds something."""
        steps: tuple[Callable[[], Why | None], ...] = (
            lambda: self._stated("own"),
            lambda: self._stated("memory"),
            self._stopped_by_slurm,
            self._first_failure,
            self._distinct_exit,
            lambda: self._signalled(self._of_others(), by_launcher=True),
            lambda: self._signalled(self._of_others(), by_launcher=False),
            self._effect,
            lambda: self._signalled(self.ended, by_launcher=True),
            lambda: self._signalled(self.ended, by_launcher=False),
            lambda: self._explained([one for one in self.raised if one not in self.causes]),
            self._said,
            self._exited,
        )
        return next(filter(None, (step() for step in steps)), None)

    def _stated(self, kind: str) -> Why | None:
        one = next((one for one in self.signs if one.sign.kind == kind), None)
        killed = next((one for one in self.ended if one.signal == _KILLED), None)
        return self._of_sign(one, killed if kind == "memory" else None) if one else None

    def _stopped_by_slurm(self) -> Why | None:
        """Slurm's own reason, unless a rank had failed before and the others only waited."""
        one = next((one for one in self.signs if one.sign.kind == "slurm"), None)
        before = [cause for cause in self.causes if one and cause.rank is not None and cause.at < one.at]
        return self._of_sign(one) if one and not before else None

    def _first_failure(self) -> Why | None:
        """The earliest failure of a rank; of two, a launcher may have seen which was first."""
        first = self._labelled() or self._signalled(self.failed, by_launcher=False, spoken=False)
        plain = self._earliest([one for one in self.causes if one.rank is None])
        if first is None and plain is not None and self._is_lacking(plain):
            first = self._setup(before=plain.at)
        first = first or (self._why(plain) if plain else None)
        first = first or self._signalled(self.failed, by_launcher=False)
        return first or self._setup(before=len(self.log.lines))

    def _labelled(self) -> Why | None:
        """The exception of the rank that a launcher saw failing first, else the first one with a rank."""
        causes = sorted((one for one in self.causes if one.rank is not None), key=self._order)
        seen = ((one, report) for report in self.ended for one in causes if report.may_be(one.rank))
        first, report = next(seen, (next(iter(causes), None), None))
        return self._of_exception(first, report) if first else None

    def _order(self, one: Raised | Seen) -> tuple[str, int]:
        """By time where several files have one, else by place."""
        return (self.log.time(one.at) if self.log.has_files else "", one.at)

    def _earliest(self, raised: Iterable[Raised]) -> Raised | Seen | None:
        """The first exception or sign that ended a process; tracebacks count before single lines."""
        tracebacks = [one for one in raised if one.in_traceback and self._is_last(one.at, _BELIEVED_STEPS)]
        bare = [one for one in raised if not one.in_traceback and self._is_last(one.at)]
        fatal = [one for one in self._believed("fatal", "lack") if one.sign.kind == "fatal" or not tracebacks]
        certain: list[Raised | Seen] = [*tracebacks, *fatal]
        weak: list[Raised | Seen] = [*bare, *self._believed("cause")]
        return min(certain or weak, key=self._order, default=None)

    def _believed(self, *kinds: str) -> list[Seen]:
        """The signs of some kinds in no traceback and no warning, after which nothing goes on."""
        inside = {one.at for one in self.raised}
        return [
            one
            for one in self.signs
            if one.sign.kind in kinds and one.at not in inside and not one.is_weak and self._is_last(one.at)
        ]

    def _is_last(self, at: int, steps: int = 0) -> bool:
        return self.log.steps_after(at) <= steps

    def _is_lacking(self, one: Raised | Seen) -> bool:
        """Whether something is missing, which an earlier failure of the set-up may be the reason of."""
        sign = one.sign if isinstance(one, Seen) else _sign_of(one)
        return sign is not None and sign.kind in ("lack", "setup")

    def _setup(self, before: int) -> Why | None:
        """The first failure of the shell or of what prepares the job."""
        found = [one for one in self._believed("setup") if one.at < before]
        is_last = before == len(self.log.lines)
        near = (one for one in found if not is_last or self.log.words_after(one.at) <= _BELIEVED_WORDS)
        return next((self._of_sign(one) for one in near), None)

    def _distinct_exit(self) -> Why | None:
        """The process that ended with an exit code of its own while others only lost it."""
        others = {(one.status, one.signal) for one in self.ended}
        own = (one for one in self.failed if one.status and not one.by_launcher)
        return next(
            (self._of_code(one) for one in own if self.lost or (one.status != 1 and len(others) > 1)), None
        )

    def _of_others(self) -> list[Ended]:
        """The ends of processes that are not of the ranks that lost another one, if there are such ranks."""
        return [one for one in self.ended if self.lost and not any(map(one.may_be, self.lost))]

    def _effect(self) -> Why | None:
        """A consequence; the one that says most. Something went on after a traceback: it counts now."""
        effects = [one for one in self.signs if one.sign.kind == "effect"]
        late = [one for one in self.causes if one.in_traceback]
        if effects and late:
            return self._explained(late)
        rated = min(effects, key=lambda one: (SIGNS.index(one.sign), one.at), default=None)
        return self._of_sign(rated, None) if rated else None

    def _explained(self, raised: Iterable[Raised]) -> Why | None:
        one = next((one for one in raised if one.in_traceback), None)
        return self._of_exception(one, self._ender(one.at, one.line)) if one else None

    def _why(self, one: Raised | Seen) -> Why:
        if isinstance(one, Seen):
            return self._of_sign(one, self._ender(one.at, one.line))
        return self._of_exception(one, self._ender(one.at, one.line))

    def _ender(self, at: int, line: str) -> Ended | None:
        """The process whose end is reported after a line, if that may be the one that wrote the line."""
        if "slurm_script: line" in line or len({self.log.file(at), self.log.file(-1)}) > 1:
            return None
        later = (one for one in self.failed if one.status and self.log.text.find(one.line) >= 0)
        is_python = any(one.at == at for one in self.raised)
        return next(
            (
                one
                for one in later
                if self.log.at(self.log.text.rfind(one.line)) >= at - 6 and (one.status == 1 or not is_python)
            ),
            None,
        )

    def _of_exception(self, one: Raised, report: Ended | None) -> Why:
        after = (shown.line for shown in self._believed("cause", "lack") if one.at < shown.at <= one.at + 3)
        texts = (one.line, *one.chain, *after)
        line = next((text for text in texts if _sign_of(Raised(text, one.at))), one.line)
        sign = _sign_of(Raised(line, one.at))
        what, todo, message = RAISED, "", f": {_quoted(one.line)}"
        if sign and (match := sign.search(line)):
            value = next(filter(None, match.groups()), "")
            what, todo, message = _filled(sign.what, value), sign.todo, ""
        who = report
        if one.rank is not None:
            who = Ended(f"rank {one.rank}", line, node=report.node if report else "")
        why = self._placed(Why(what, todo, line), one.at, who, one.rank)
        return structs.replace(why, what=why.what + message)

    def _of_sign(self, one: Seen, report: Ended | None = None) -> Why:
        if (
            report is None
            and one.rank is not None
            and one.sign.kind != "effect"
            and "rank" not in one.sign.what
        ):
            report = Ended(f"rank {one.rank}", one.line)
        why = Why(_filled(one.sign.what, one.value), one.sign.todo, one.line)
        return self._placed(why, one.at, report, one.rank)

    def _placed(self, why: Why, at: int, who: Ended | None, rank: int | None = None) -> Why:
        """The reason with the process that it is about, and the place of its line."""
        return structs.replace(
            why,
            what=f"{why.what} ({who.who})" if who else why.what,
            number=self.log.number(at),
            file=self.log.file(at),
            rank=rank if rank is not None else _only_rank(who),
            node=who.node if who else "",
        )

    def _signalled(self, ended: Iterable[Ended], *, by_launcher: bool, spoken: bool = True) -> Why | None:
        """The first process that ended with a signal, unless it waited for others until a timeout."""
        for one in ended:
            waited = self.timed_out and (one.by_launcher or one.signal in (_ABORTED, _TERMINATED))
            if (
                one.signal
                and one.by_launcher == by_launcher
                and not waited
                and (spoken or one.signal not in _SPOKEN)
            ):
                return self._at(
                    one,
                    _cancelled(one)
                    if by_launcher and not self.lost
                    else _by_signal(one.who, one.signal, one.line),
                )
        return None

    def _said(self) -> Why | None:
        """The last line that a program calls an error, if nothing goes on after it."""
        said = self._believed("said")
        return self._of_sign(said[-1], self._ender(said[-1].at, said[-1].line)) if said else None

    def _exited(self) -> Why | None:
        """The first process that ended with an exit code, if nothing else is known."""
        one = next((one for one in self.failed if one.status and not one.by_launcher), None)
        return self._of_code(one) if one else None

    def _of_code(self, one: Ended) -> Why:
        return self._at(one, Why(f"{one.who} ended with exit code {one.status}", "", one.line))

    def _at(self, one: Ended, why: Why) -> Why:
        return structs.replace(self._placed(why, self._place(one), None), rank=_only_rank(one), node=one.node)

    def _place(self, one: Ended) -> int:
        """The index of the line of a report."""
        return self.log.at(max(0, self.log.text.find(one.line)))


def _starts_a_run(one: Raised, raised: Sequence[Raised]) -> bool:
    """Whether a program was just read: what is above it in the file is of an older one."""
    is_syntax = one.line.startswith(("SyntaxError", "IndentationError", "TabError"))
    return is_syntax and one.rank is None and not one.in_traceback and one is not raised[0]


def _only_rank(one: Ended | None) -> int | None:
    ranks = one.ranks if one else ()
    return ranks[0].start if len(ranks) == 1 and len(ranks[0]) == 1 else None


def _sign_of(raised: Raised) -> Sign | None:
    """The first sign of an exception; signs of consequences do not count."""
    return next(
        (one for one in SIGNS if one.kind not in ("effect", "said") and one.search(raised.line)), None
    )


def _is_consequence(raised: Raised) -> bool:
    """Whether an exception follows from the end of another process."""
    return bool(CONSEQUENCE.search(raised.line)) and not _sign_of(raised)


def _is_survivor(ended: Ended, lost: Iterable[int | None]) -> bool:
    """Whether a process ended because others had: it was terminated, or is of a rank that lost them."""
    return ended.signal == _TERMINATED or (bool(ended.status) and any(map(ended.may_be, lost)))


def _cancelled(one: Ended) -> Why:
    """A process that its launcher ended."""
    what = f"its step was cancelled, and {one.who} was ended with it"
    return Why(what, "`sacct -j ID -o JobID,State,ExitCode` shows which step ended first.", one.line)


def _filled(what: str, value: str) -> str:
    return " ".join(what.replace("{0}", _quoted(value[:LONGEST])).split())


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
