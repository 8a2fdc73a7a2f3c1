"""Why a job failed, in words: from Slurm's record, and from the end of its log. Pure."""

import re
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from slurmgen.jobs.failure_patterns import LAST_SIGNS, SIGNS, Sign
from slurmgen.slurm import sizes
from slurmgen.slurm.replies import JobState

LOG_END = 32_768
"Bytes of a log's end in which signs are looked for."
_LONGEST = 300
"Characters of a line that are shown."
_HEAD = "Traceback (most recent call last):"
_MOST_TRACEBACKS, _MOST_LINES = 100, 1000
_LAST = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: .*)?$")
_FIRST_RANK = re.compile(
    r"Root Cause \(first observed failure\):.{0,1000}?\brank\s{0,20}:\s{0,20}(\d{1,9})", re.DOTALL
)


class Why(Struct, frozen=True):
    """Why a job failed."""

    what: str
    todo: str = ""
    line: str = ""
    "The line of the log that shows it."


_MORE_MEMORY = "Ask for more with --mem, or use less: fewer data-loader workers, a smaller batch."
SIGNALS = {
    4: Why(
        "it ended with SIGILL: a program was built for another CPU", "Build it on a node of this partition."
    ),
    6: Why("it ended with SIGABRT: a program gave up"),
    7: Why(
        "it ended with SIGBUS, mostly as shared memory (/dev/shm) ran out", "Use fewer data-loader workers."
    ),
    9: Why("it was killed (SIGKILL), which mostly means that memory ran out", _MORE_MEMORY),
    11: Why("it ended with SIGSEGV: a program crashed", "Mostly a compiled library that does not fit."),
    15: Why("it was ended by SIGTERM"),
}


def why(job: JobState, log: str = "", seen: Why | None = None) -> Why | None:
    """Why a job failed, as far as its record or the end of its log shows it; None if it did not.

    Args:
        job: what Slurm says of it.
        log: the end of its log; nothing if there is none any more.
        seen: what this said before, when the log may have been there.
    """
    if not job.ended or job.state == "COMPLETED":
        return None
    if job.state != "FAILED":
        return _recorded(job)
    kept = None if log else seen
    return _out_of_memory(job) or kept or _not_started(job) or _logged(log) or _by_exit_code(job)


def status_and_signal(job: JobState) -> tuple[int, int]:
    """The exit status and the signal of a record's `1:0`; zeros if it has none."""
    found = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", job.exit_code)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _recorded(job: JobState) -> Why:
    limit = f" of {job.time_limit}" if job.time_limit else ""
    node = f" ({job.nodes})" if job.nodes else ""
    by = f" by user {job.cancelled_by}" if job.cancelled_by else ""
    again = "Submit it again; with --requeue and checkpoints it would go on by itself."
    words = {
        "TIMEOUT": (
            f"it reached its time limit{limit}",
            "Ask for more with --time, or let it go on from checkpoints with --requeue.",
        ),
        "OUT_OF_MEMORY": (_memory(job), _MORE_MEMORY),
        "NODE_FAIL": (f"a node of it failed{node}", again),
        "BOOT_FAIL": (f"a node of it did not start{node}", again),
        "PREEMPTED": ("a job of higher priority took its place", again),
        "CANCELLED": (f"it was cancelled{by}", ""),
        "DEADLINE": ("it could not end by its --deadline", ""),
        "REVOKED": ("another cluster runs it", ""),
    }
    return Why(*words.get(job.state, (f"Slurm says {job.state}", "")))


def _memory(job: JobState) -> str:
    had, used = (job.usage.memory, job.usage.memory_used) if job.usage else (None, None)
    told = f" than the {sizes.canonical(had)} it had" if had else " than it had"
    seen = f"; {sizes.canonical(used)} were seen" if used else ""
    return f"it used more memory{told}{seen}"


def _out_of_memory(job: JobState) -> Why | None:
    """Without cgroups Slurm kills such a job, and calls it FAILED."""
    had, used = (job.usage.memory, job.usage.memory_used) if job.usage else (None, None)
    if had and used and used > had and _signal(job) == 9:
        return Why(_memory(job), _MORE_MEMORY)
    return None


def _signal(job: JobState) -> int:
    """The signal that ended it, or a command in it: a shell says 128 + N of the latter."""
    status, signal = status_and_signal(job)
    return signal or (status - 128 if status - 128 in SIGNALS else 0)


def _not_started(job: JobState) -> Why | None:
    # 53 stands for no job's own status: slurmd could not open the log, nor tell why in it.
    if status_and_signal(job) != (0, 53):
        return None
    return Why(
        "Slurm could not start it: its folder or that of its log is not there, or may not be written to",
        "Slurm makes no folder for a log; look whether both are there on the nodes, and at your quota.",
    )


def _logged(log: str) -> Why | None:
    last = _last_of_traceback(log)
    found = (
        _shown(SIGNS, last),
        _shown(SIGNS, log),
        Why("Python raised an error", "", last) if last else None,
    )
    return next(filter(None, found), None) or _shown(LAST_SIGNS, log)


def _shown(signs: Iterable[Sign], text: str) -> Why | None:
    """What the first sign of the table that is in the text means."""
    for sign in signs:
        if match := sign.pattern.search(text):
            value = next(filter(None, match.groups()), "")[:_LONGEST]
            return Why(sign.what.replace("{0}", value), sign.todo, _line_of(match))
    return None


def _line_of(match: re.Match[str]) -> str:
    text = match.string
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[start : end if end >= 0 else len(text)].strip()[:_LONGEST]


def _last_of_traceback(log: str) -> str:
    """The line that ends the traceback of the rank that failed first; nothing if there is none."""
    ends = list(_tracebacks(log.splitlines()))
    first = _FIRST_RANK.search(log)
    of_first = [end for rank, end in ends if first and rank == first[1]]
    return next(iter(of_first), ends[0][1] if ends else "")


def _tracebacks(lines: list[str]) -> Iterable[tuple[str, str]]:
    """Each traceback's rank, where its lines tell it as `[rank3]: `, and its last line."""
    heads = (number for number, line in enumerate(lines) if line.rstrip().endswith(_HEAD))
    for number in islice(heads, _MOST_TRACEBACKS):
        prefix = lines[number].partition(_HEAD)[0]
        after = lines[number + 1 : number + 1 + _MOST_LINES]
        own = (one[len(prefix) :] for one in after if one.startswith(prefix))
        if end := next(filter(_is_exception, own), ""):
            rank = re.search(r"\d{1,9}", prefix)
            yield rank[0] if rank else "", end[:_LONGEST]


def _is_exception(line: str) -> bool:
    """Whether a line is a dotted name with a capital, other than its first letter, and perhaps a message.

    >>> [_is_exception(line) for line in ("KeyError: 'x'", "my.lib.Failed", "  File", "Traceback")]
    [True, True, False, False]
    """
    found = _LAST.match(line)
    return found is not None and any(map(str.isupper, found[1][1:].rpartition(".")[2]))


def _by_exit_code(job: JobState) -> Why:
    status, signal = status_and_signal(job)[0], _signal(job)
    if signal:
        return SIGNALS.get(signal, Why(f"it was ended by signal {signal}"))
    if status in _STATUSES:
        return Why(_STATUSES[status])
    return Why(f"its script ended with exit code {status}" if status else "Slurm does not say why")


_STATUSES = {126: "a command of its script may not be run", 127: "a command of its script was not found"}
