"""Why a job failed, from its states, its log and its steps."""

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct, structs

from slurmgen.slurm import units
from slurmgen.slurm.replies import JobState, in_one_form
from slurmgen.status.failure_patterns import (
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

LONGEST = 300
"Characters of a line that are shown."


_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


_HARMLESS = ("Exception ignored in", "--- Logging error ---")


# Of `srun --label`, of torchrun's --tee, of PyTorch, and of a traceback in torchrun's summary.
_PREFIX = re.compile(r"(?:\d{1,6}: ?)?(?:\[[a-z]{0,10} ?\d{1,6}\]: ?){0,2}(?:  traceback : |  (?=\S))?")


# The line before it may lack its end: that of a progress bar.
_TRACEBACK = re.compile(rf"({_PREFIX.pattern})Traceback \(most recent call last\):\s*$")


_RANK = re.compile(r"\[rank ?(\d{1,6})\]")


_EXCEPTION = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: .*)?$")


# A capital after the first letter, but in the name of the module; or a name without one.
_EXCEPTION_NAME = re.compile(r"(?!^)[A-Z]\w*$|^(?:Exception|Error|socket\.timeout)$")


_ROOT_CAUSE = "Root Cause (first observed failure):"


_FIELD = re.compile(r"(?:^|\s)(time|host|rank|exitcode)\s{1,10}: (\S{1,100})")


_LOCAL = re.compile(r"(?:ip6-)?localhost(?:\.|$)|127\.|::1$")


_LABEL = re.compile(r"(\d{1,6}): ")


_FIELDS_WITHIN = 40


_MOST_REPORTS = 500


_WORKER = re.compile(r"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,6})")


_SPAWNED = re.compile(r"\bprocess (\d{1,6}) terminated with (?:signal (SIG\w{1,10})|exit code (\d{1,9}))")


_TASK = re.compile(r"srun: error: (\S{1,100}): tasks? ([\d,-]{1,200}): (.{1,100})")


_COMMAND = re.compile(r": line (\d{1,9}): +\d{1,9} ([A-Z][a-z]{1,30}(?: [a-z]{1,30}){0,2})")


_EXITED = re.compile(r"Exited with exit code (\d{1,9})")


_TERMINATION = re.compile(
    r"Terminating (?:StepId=|job step )|Job step aborted: Waiting"
    r"|\*\*\* (?:STEP|JOB) \S{1,60} ON \S{1,100} CANCELLED AT"
)


_RESTARTED = re.compile(
    r"CANCELLED AT \S{1,40} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
    r"|^slurmgen: segment [0-9]{1,9} of [0-9]{1,9} (?:is unfinished|was ended by Slurm)",
    re.MULTILINE,
)


_TORCHRUN = re.compile(r"torch[./]distributed[./](?:elastic|run)\b")


_SIGNAL_NUMBERS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}


class Raised(Struct, frozen=True):
    """An exception that a traceback shows; the first one of a chain."""

    line: str
    "The traceback's last line: the exception and its message."
    rank: int | None = None
    "Only known of an exception that ended a rank: PyTorch then prints it in front of each line."


class Ended(Struct, frozen=True):
    """A report that a process failed."""

    name: str
    "Such as `rank 3`; a task of srun is a rank too, unless a launcher runs in it."
    line: str
    node: str = ""
    status: int = 0
    signal: int = 0
    ranks: tuple[range, ...] = ()
    "Ranks of which one may be meant."
    by_launcher: bool = False
    "Whether the launcher ended the process, as others had failed before."

    @property
    def who(self) -> str:
        """The process, and its node if that is known."""
        return self.name + self.on_node

    @property
    def on_node(self) -> str:
        """Where it ran; nothing if that is not known."""
        return f" on {self.node}" if self.node else ""

    def may_be(self, rank: int | None) -> bool:
        """Whether the report may be about that rank."""
        return any(rank in ranks for ranks in self.ranks)


def last_run(log: str) -> str:
    """What a job wrote since it was requeued last, or in its last segment."""
    at = max((match.end() for match in _RESTARTED.finditer(log)), default=0)
    return log[at:] or log


def exceptions(log: str) -> Iterator[Raised]:
    """The exceptions of a log in the order of their tracebacks' last lines."""
    previous: dict[str, str] = {}
    opened: set[str] = set()
    for line in log.splitlines():
        head = _TRACEBACK.search(line)
        prefix, text = _split(head[0] if head else line)
        if head and not previous.get(prefix, "").startswith(_CHAINED + _HARMLESS):
            opened.add(prefix)
        elif prefix in opened and is_exception(text):
            opened.remove(prefix)
            rank = _RANK.search(prefix)
            yield Raised(text[:LONGEST], int(rank[1]) if rank else None)
        if text:
            previous[prefix] = text


def _split(line: str) -> tuple[str, str]:
    """A line's prefix, which is the same for all lines of one traceback, and the rest."""
    end = match.end() if (match := _PREFIX.match(line)) else 0
    return line[:end].replace("traceback : ", "").rstrip(" "), line[end:].rstrip()


def is_exception(line: str) -> bool:
    """Whether a line is the name of an exception, and perhaps a message: other processes write lines too.

    >>> [is_exception(line) for line in ("KeyError: 'x'", "Exception: x", "my.lib.Failed")]
    [True, True, True]
    >>> [is_exception(line) for line in ("  File", "Traceback", "Epoch: 3")]
    [False, False, False]
    """
    match = _EXCEPTION.match(line)
    return match is not None and bool(_EXCEPTION_NAME.search(match[1]))


def reports(log: str, only_node: str = "") -> list[Ended]:
    """The processes that failed, as launchers report it, the earliest first.

    `only_node` is the node of a job that has one.
    """
    workers = _torchrun_summaries(log, only_node) or list(_torchrun_workers(log))
    tasks = _tasks(log, are_launchers=bool(_TORCHRUN.search(log)))
    return [*workers, *_spawned(log), *tasks, *_commands(log)]


def _torchrun_summaries(log: str, only_node: str) -> list[Ended]:
    """The first failure of each node, in the order of their times.

    torchrun calls a node localhost whose address has that name first. Then Slurm names it: that of the
    task which a label of `srun --label` shows, or the only one.
    """
    lines = log.splitlines()
    starts = (number for number, line in enumerate(lines) if line.rstrip().endswith(_ROOT_CAUSE))
    causes = [_root_cause(lines[start : start + _FIELDS_WITHIN]) for start in islice(starts, _MOST_REPORTS)]
    known = sorted(filter(None, causes), key=lambda cause: cause[0])
    return [
        structs.replace(one, node=_node_of(one, log) or only_node) if _LOCAL.match(one.node) else one
        for _, one in known
    ]


def _node_of(ended: Ended, log: str) -> str:
    """The node of the task that wrote a line, as srun reports it; empty if it does not."""
    label = _LABEL.match(ended.line)
    if label is None:
        return ""
    tasks = ((match[1], _ranges(match[2])) for match in islice(_TASK.finditer(log), _MOST_REPORTS))
    found = (
        node for node, ranges in tasks if "[" not in node and any(int(label[1]) in one for one in ranges)
    )
    return next(found, "")


def _root_cause(lines: list[str]) -> tuple[str, Ended] | None:
    found = [(match[1], match[2], line) for line in lines for match in _FIELD.finditer(line)]
    fields = {name: (value, line.strip()) for name, value, line in reversed(found)}
    rank = re.fullmatch("[0-9]{1,6}", fields.get("rank", ("",))[0])
    code, line = fields.get("exitcode", ("1", ""))
    node, _ = fields.get("host", ("", ""))
    worker = _worker(f"rank {rank[0]}", code, line, node, int(rank[0])) if rank else None
    return (fields.get("time", ("",))[0], worker) if worker else None


def _torchrun_workers(log: str) -> Iterator[Ended]:
    """The workers that torchrun saw failing, for a log that has no summary."""
    for match in islice(_WORKER.finditer(log), _MOST_REPORTS):
        yield _worker(f"local rank {match[2]}", match[1], line_of(match))


def _worker(name: str, code: str, line: str, node: str = "", rank: int | None = None) -> Ended:
    """A process by its exit code as Python has it, which is negative after a signal."""
    number = int(code) if re.fullmatch("-?[0-9]{1,9}", code) else 1
    ended = _ended(name, line, max(number, 0), max(-number, 0), _one(rank))
    return structs.replace(ended, node=node)


def _one(rank: int | None) -> tuple[range, ...]:
    return () if rank is None else (range(rank, rank + 1),)


def _ended(name: str, line: str, status: int, number: int, ranks: tuple[range, ...] = ()) -> Ended:
    """A report; a shell's exit status of 128 + N stands for signal N."""
    by_shell = status - 128 if 128 < status <= 128 + 64 else 0
    return Ended(
        name, line[:LONGEST], status=0 if by_shell else status, signal=by_shell or number, ranks=ranks
    )


def _spawned(log: str) -> Iterator[Ended]:
    """The processes of torch.multiprocessing.spawn."""
    for match in islice(_SPAWNED.finditer(log), _MOST_REPORTS):
        number = getattr(signal, match[2] or "", 0)
        yield _ended(f"process {match[1]}", line_of(match), int(match[3] or 0), number, _one(int(match[1])))


def _tasks(log: str, *, are_launchers: bool) -> Iterator[Ended]:
    """The tasks of srun: each is one rank, or runs a launcher whose own exit status shows nothing."""
    end = min((match.start() for match in _TERMINATION.finditer(log)), default=len(log))
    for match in islice(_TASK.finditer(log), _MOST_REPORTS):
        exited = _EXITED.match(match[3])
        ranks = () if are_launchers else tuple(_ranges(match[2]))
        name = f"task{'s' if re.search('[,-]', match[2]) else ''} {match[2]}"
        ended = _ended(name, line_of(match), int(exited[1]) if exited else 0, _number(match[3]), ranks)
        if ended.signal or (ended.status and not are_launchers):
            yield structs.replace(ended, node=match[1], by_launcher=match.start() > end)


def _ranges(tasks: str) -> Iterator[range]:
    """The task numbers of `0-1,3`."""
    for match in re.finditer(r"(\d{1,9})(?:-(\d{1,9}))?", tasks):
        yield range(int(match[1]), int(match[2] or match[1]) + 1)


def _commands(log: str) -> Iterator[Ended]:
    """Commands of the script, of which bash reports the signal that ended them."""
    for match in islice(_COMMAND.finditer(log), _MOST_REPORTS):
        if number := _number(match[2]):
            yield _ended(f"a command in line {match[1]} of the script", line_of(match), 0, number)


def _number(words: str) -> int:
    """The signal that the C library describes with these words; 0 if there is none."""
    return next((number for text, number in _SIGNAL_NUMBERS.items() if text and words.startswith(text)), 0)


def line_of(match: re.Match[str]) -> str:
    """The line, or the lines, in which a match was found."""
    text = match.string
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[start : end if end >= 0 else len(text)].strip()[:LONGEST]


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
