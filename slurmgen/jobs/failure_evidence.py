"""What a log shows of a failure: uncaught exceptions, and processes that a launcher reports as ended. Pure.

Programs write into one log at the same time, so lines of several ranks alternate. The prefix of a line,
such as `[rank3]: `, tells them apart. Every search takes time linear in the length of the log.
"""

import re
import signal
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, structs

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
_TERMINATED = re.compile(
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
    end = min((match.start() for match in _TERMINATED.finditer(log)), default=len(log))
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
