"""What logs show of a failure: exceptions, reports of launchers, and signs, each with its place."""

import re
import signal
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile

from msgspec import Struct, structs

from slurmgen.status.failure_patterns import SIGNS, Sign

LONGEST = 300
"Characters of a line that are shown."
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_HARMLESS = ("Exception ignored in", "--- Logging error ---")

# Of `srun --label`, of torchrun's --tee, of PyTorch, of mpirun --tag-output, of Ray, and of a traceback in
# torchrun's summary.
_PREFIX = re.compile(
    r"(?:\d{1,6}: ?)?(?:\[\d{1,6},\d{1,6}\]<std(?:err|out)>: ?)?"
    r"(?:\([\w.:]{1,80} pid=\d{1,9}[^)\n]{0,60}\) )?"
    r"(?:\[[a-z]{0,10} ?\d{1,6}\]: ?){0,2}(?:  traceback : |  (?=\S))?"
)

# The line before it may lack its end. rich draws a box around it.
_TRACEBACK = re.compile(
    rf"({_PREFIX.pattern})(?:╭─{{1,200}} )?(Original )?"
    r"Traceback \(most recent call last\)(?::| ─{1,200}╮)\s*$"
)
_CAUGHT = re.compile(r"Caught \w{1,60} in ")
_RANK = re.compile(r"\[[Rr]ank ?(\d{1,6})\]|^\[\d{1,6},(\d{1,6})\]<std")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: .*|:)?$")

# A capital after the first letter, but in the name of the module; or a name without one.
_EXCEPTION_NAME = re.compile(r"(?!^)[A-Z]\w*$|^(?:Exception|Error|socket\.timeout)$")
_BARE = re.compile(r"(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception): \S")
_STYLE = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\))")
_BAR = re.compile(r"\d{1,3}%\|[^|\n]{0,200}\|[^\[\n]{0,60}\[[^\]\n]{0,100}\]")
"A progress bar of tqdm, which does not end its line."
_PROGRESS = re.compile(
    r"(?i)\b(?:epoch|step|iter|iteration|batch|update)s?\b[\s:=\[#/]{0,4}\d"
    r"|\b(?:loss|lr|accuracy|acc|ppl|grad_norm|mfu)[\"']?\s{0,3}[:=]?\s{0,3}(?:[-\d]|nan|inf)"
    r"|\d ?(?:it/s|s/it)\b|\d%\|\s?\S{0,100}\|[^[]{0,60}\[(?!00:00<\?)"
    r"|Requirement already satisfied|Successfully installed"
)
"What a program writes that goes on."
_CHAT = re.compile(
    r"(?i)^\W{0,9}(?:(?:step|epoch|iter|iteration|batch|sample|example)s?\W{0,3}\d{1,9}\W{1,4})?"
    r"(?:\w{1,20} )?"
    r"(?:sample|example|answer|question|prompt|output|generated|generation|completion|response|user|assistant"
    r"|reference|prediction|target)s?(?: \w{1,20}){0,2} ?:"
)
"Text that a model reads or writes."
_WEAK = re.compile(r"(?i)\b(?:warn(?:ing)?|userwarning|futurewarning|info|debug|notice|retrying)\b")
_LAUNCHER = re.compile(r"(?:srun|slurmgen|slurmstepd(?:-\S{1,60})?): |\s*$|[=\-*#~\s]{10,}$")
"What neither a program nor its shell writes, or what says nothing."
_TIME = re.compile(r"(?:\d{4}-)?(\d\d)[-/](\d\d)[T _](\d\d:\d\d:\d\d)|\b[EWIF](\d\d)(\d\d) (\d\d:\d\d:\d\d)")
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


def _run_start(log: str) -> int:
    """Where the last run begins: after a requeue, in the last segment, or where the first lines recur."""
    last = max(_RESTARTED.finditer(log), key=re.Match.end, default=None)
    at = last.end() if last else 0
    is_over = all(_LAUNCHER.match(line) for line in log[at:].partition("\n")[2].split("\n"))
    if last and is_over and last[0].startswith("CANCELLED"):  # Slurm did not start it again
        at = 0
    head = "".join(log.partition("\n\n")[0].splitlines(keepends=True)[:2])
    again = log.rfind(f"\n{head}", at) + 1 if len(head) > _LONG_HEAD and not _FAULT.search(head) else 0
    return again if again and "Traceback (" in log[at:again] else at


_LONG_HEAD = 20
_FAULT = re.compile("rror|Traceback|srun: ")


class Piece(Struct, frozen=True):
    """A piece of a log that was read."""

    text: str
    numbers: tuple[tuple[int, int], ...] = ()
    "Places in it, by the index of a line, with the number of that line in its file; the others follow."
    file: str = ""
    rank: int | None = None
    "The rank that wrote all of it, if it is known."


def _shows_progress(line: str) -> bool:
    return bool(_PROGRESS.search(line[:LONGEST])) and not _LAUNCHER.match(line)


class Log:
    """The lines of one or several logs, without what styles them; a progress bar is a line."""

    def __init__(self, parts: Iterable[Piece]) -> None:
        self.lines: list[str] = []
        self._places: list[tuple[int, Piece]] = []
        for part in parts:
            self._add(part)
        self.text = "\n".join(self.lines)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._progress = [at for at, line in enumerate(self.lines) if _shows_progress(line)]
        self._bars = {at for at in self._progress if _BAR.search(self.lines[at][-LONGEST:])}

    def _add(self, part: Piece) -> None:
        start = _run_start(part.text)
        text = _BAR.sub(r"\g<0>\r", _STYLE.sub("", part.text[start:])).replace("\r\n", "\n")
        for offset, line in enumerate(text.split("\n"), part.text.count("\n", 0, start)):
            pieces = [piece for piece in line.split("\r") if piece] or [""]
            self.lines += pieces
            self._places += [(offset, part)] * len(pieces)

    def at(self, offset: int) -> int:
        """The index of the line that has this offset of the text."""
        return min(bisect_right(self._starts, offset) - 1, len(self.lines) - 1)

    def number(self, at: int) -> int | None:
        """The number of a line in its file, if it is known."""
        offset, piece = self._places[at]
        known = [number + offset - index for index, number in piece.numbers if index <= offset]
        return known[-1] if known else None

    @property
    def has_files(self) -> bool:
        """Whether it is several files."""
        return len({part.file for _, part in self._places}) > 1

    def file(self, at: int) -> str:
        """The file of a line."""
        return self._places[at][1].file

    def rank(self, at: int, within: int = 200) -> int | None:
        """The rank that wrote a line, if its beginning or the name of its file shows it."""
        found = _RANK.search(self.lines[at][:within])
        return int(found[1] or found[2]) if found else self._places[at][1].rank

    def time(self, at: int) -> str:
        """When a line was written, by the last time in its file until then; empty if none is near."""
        lines = (
            self.lines[one] for one in range(at, max(-1, at - 60), -1) if self.file(one) == self.file(at)
        )
        found = next(filter(None, (_TIME.search(line[:LONGEST]) for line in lines)), None)
        return " ".join(filter(None, found.groups())) if found else ""

    def steps_after(self, at: int) -> int:
        """The lines after this one that show that its file goes on."""
        later = islice(self._progress, bisect_right(self._progress, at), None)
        steps = list(takewhile(lambda one: self.file(one) == self.file(at), later))
        bars = sum(one in self._bars for one in steps)  # tqdm draws its bars once more when it ends
        return len(steps) - min(bars, 2)

    def words_after(self, at: int) -> int:
        """The lines of programs after this one."""
        return sum(not _LAUNCHER.match(line) for line in self.lines[at + 1 : at + 200])

    @cached_property
    def raised(self) -> "list[Raised]":
        """The exceptions in the order of their tracebacks' last lines."""
        reader = _Exceptions(self)
        for at, line in enumerate(self.lines):
            reader.read(at, line)
        return reader.found

    @cached_property
    def signs(self) -> "list[Seen]":
        """The signs in the order of their lines; of several on one line, the first of the table."""
        found: dict[int, Seen] = {}
        for sign in SIGNS:
            for match in islice(re.finditer(sign.pattern, self.text, re.MULTILINE), _MOST_SIGNS):
                at = self.at(match.start())
                is_quoted = sign.kind != "own" and _is_quoted(
                    self.lines[at], match.start() - self._starts[at]
                )
                if at not in found and not is_quoted:
                    found[at] = _shown(self, sign, match, at)
        return [found[at] for at in sorted(found)]

    @property
    def ending(self) -> str:
        """The last lines of the program, not of its launcher."""
        found = [line.strip() for line in self.lines[-400:] if not _LAUNCHER.match(line)]
        return "\n".join(line[:LONGEST] for line in found[-3:])


class Raised(Struct, frozen=True):
    """An exception that a traceback shows, and those that it led to."""

    line: str
    "The traceback's last line: the exception and its message."
    at: int
    "The index of the line."
    rank: int | None = None
    "Only known of an exception that ended a rank: PyTorch then prints it in front of each line."
    chain: tuple[str, ...] = ()
    "The exceptions that were raised while this one was handled."
    in_traceback: bool = True


class Seen(Struct, frozen=True):
    """A sign that a log has."""

    sign: Sign
    at: int
    line: str
    value: str = ""
    rank: int | None = None
    is_weak: bool = False
    "Whether it is in a warning."


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
        return f"{self.name} on {self.node}" if self.node else self.name

    def may_be(self, rank: int | None) -> bool:
        """Whether the report may be about that rank."""
        return any(rank in ranks for ranks in self.ranks)


class _Exceptions:
    """Reads tracebacks, whose lines may be mixed with those of other processes."""

    def __init__(self, log: Log) -> None:
        self.found: list[Raised] = []
        self._log = log
        self._opened: dict[str, int | None] = {}
        "The exceptions that the open traceback of each prefix may follow, by their indices; None: a new one."
        self._harmless: set[str] = set()
        self._last: dict[str, int] = {}
        self._previous: dict[str, str] = {}

    def read(self, at: int, line: str) -> None:
        """Read one line."""
        head = _TRACEBACK.search(line) if "Traceback (" in line else None
        prefix, text = _split(head[0] if head else line)
        if head and not _is_quoted(line, head.end(1)):
            self._open(prefix, is_original=bool(head[2]))
        elif is_exception(text) and (prefix in self._opened or _BARE.match(text)):
            self._close(prefix, Raised(_message(self._log, at, text), at, self._log.rank(at, len(prefix))))
        if text:
            self._previous[prefix] = text

    def _open(self, prefix: str, *, is_original: bool) -> None:
        before = self._previous.get(prefix, "")
        self._harmless.discard(prefix)
        if before.startswith(_HARMLESS):
            self._harmless.add(prefix)
        follows = is_original or before.startswith(_CHAINED)
        self._opened[prefix] = self._last.get(prefix) if follows else None

    def _close(self, prefix: str, one: Raised) -> None:
        """Add an exception, or join it to the one that it followed."""
        if prefix in self._harmless:  # other lines of it may look like exceptions
            return
        in_traceback = prefix in self._opened
        follows = self._opened.pop(prefix, None)
        if follows is None:
            self._last[prefix] = len(self.found)
            self.found.append(structs.replace(one, in_traceback=in_traceback))
            return
        first = self.found[follows]
        is_copy = bool(_CAUGHT.search(first.line))
        changes = {"line": one.line, "at": one.at} if is_copy else {"chain": (*first.chain, one.line)[:8]}
        self.found[follows] = structs.replace(first, **changes)


def _message(log: Log, at: int, text: str) -> str:
    """An exception's first line; with the next one if it announces more."""
    after = log.lines[at + 1] if text.endswith(":") and at + 1 < len(log.lines) else ""
    more = _split(after)[1].strip()
    is_more = more and not _LAUNCHER.match(after) and "Traceback (" not in more and not is_exception(more)
    return f"{text} {more}"[:LONGEST] if is_more else text[:LONGEST]


_GNU_QUOTED = re.compile(r"`[^`'\n]{0,100}'")


def _is_quoted(line: str, column: int) -> bool:
    """Whether a place of a line is in a quotation, or in what a model reads or writes."""
    before = _GNU_QUOTED.sub("", line[:column][-2000:])
    if _CHAT.match(line[:LONGEST]):
        return True
    if line.startswith("{"):
        return False
    singles = len(re.findall(r"(?<![\w'])'(?=\S)", before)) - len(re.findall(r"(?<=\S)'(?!\w)", before))
    return (
        bool(before.count('"') % 2 or before.count("`") % 2 or before.count("“") > before.count("”"))
        or singles > 0
    )


def _shown(log: Log, sign: Sign, match: re.Match[str], at: int) -> Seen:
    line = log.lines[at][:80]
    is_weak = sign.kind in ("cause", "setup", "lack") and bool(_WEAK.search(line)) and "NCCL WARN" not in line
    value = next(filter(None, match.groups()), "")[:LONGEST]
    return Seen(sign, at, line_of(match), value, log.rank(at), is_weak)


_MOST_SIGNS = 100


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
    return _ended(name, line, max(number, 0), max(-number, 0), _one(rank), node)


def _one(rank: int | None) -> tuple[range, ...]:
    return () if rank is None else (range(rank, rank + 1),)


def _ended(
    name: str, line: str, status: int, number: int, ranks: tuple[range, ...] = (), node: str = ""
) -> Ended:
    """A report; a shell's exit status of 128 + N stands for signal N."""
    by_shell = status - 128 if 128 < status <= 128 + 64 else 0
    return Ended(name, line[:LONGEST], node, 0 if by_shell else status, by_shell or number, ranks)


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
        status = int(exited[1]) if exited else 0
        ended = _ended(name, line_of(match), status, _number(match[3]), ranks, match[1])
        if ended.signal or (ended.status and not are_launchers):
            yield structs.replace(ended, by_launcher=match.start() > end)


def _ranges(tasks: str) -> Iterator[range]:
    """The task numbers of `0-1,3`."""
    for match in re.finditer(r"(\d{1,9})(?:-(\d{1,9}))?", tasks):
        yield range(int(match[1]), int(match[2] or match[1]) + 1)


def _commands(log: str) -> Iterator[Ended]:
    """The commands of the script for which bash reports a fatal signal."""
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
