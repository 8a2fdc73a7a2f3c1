"""Read the logs of jobs, whole, in part, or as they grow."""

import re
import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, batches, failed
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import LOG_END, NO_FOLDER
from slurmgen.status.job import Job, find_log
from slurmgen.status.slurm import QUERIES_UNTIL_GONE, ended, query_states

_HEAD = 4096
"Bytes of a log's beginning that show whether it is text."
_SEARCHED = 4 << 20
"Bytes of a log's end that the remote host reads: a failure of Lightning writes 20 kB for each rank."
# Without the frames of tracebacks and of C++, the failures of many ranks fit into LOG_END. The first failure
# after which nothing goes on has a quarter of it: a site may append a long report to a log.
# The line of the last unfinished run comes first: what a long run writes after it may be more than is kept.
# The numbers of lines come last: INDEX:NUMBER wherever lines are left out. A NUL ends each log and \001 each
# part of it, so the logs themselves must not contain them.
_ENDS = r"""
export LC_ALL=C
searched=$1 kept=$2 longest=$3 counted=$4 gone=$5
shift 5
for file do
  [ -d "${file%/*}" ] || printf '%s' "$gone"
  tail -c "$searched" "$file" 2>/dev/null | tr -d '\000\001' |
    grep '^slurmgen: \(run\|segment\) [0-9]' | tail -n 1 | head -c "$longest"
  size=$(wc -c <"$file" 2>/dev/null) before=0
  if [ "${size:-0}" -gt "$counted" ]; then before=-1
  elif [ "${size:-0}" -gt "$searched" ]; then before=$(head -c "-$searched" "$file" | wc -l)
  fi
  printf '\001'
  tail -c "$searched" "$file" 2>/dev/null | tr -d '\000\001' |
    awk -v kept="$kept" -v before="$((before))" -v end="$(tail -c 1 "$file" 2>/dev/null | tr -d '\000\001')" '
      function show(text, number, after) {
        if (number != expected) numbers = numbers " " shown ":" number
        shown++; expected = number + 1; printf "%s%s", text, after }
      /^(\[[^]]*\]: *)*  File "/ || /^(\[[^]]*\]: ?)*    / || /^(\[[^]]*\]: *)*frame #[0-9]/ { next }
      { size = length($0) + 1; if (size > kept) { $0 = substr($0, size - kept + 1); size = kept }
        line[++n] = $0; at[n] = before + NR; all += size
        while (all > kept && from < n) { from++; all -= length(line[from]) + 1; delete line[from] } }
      /(epoch|step|iter|loss)[^a-z]*[0-9]|[0-9]it\/s/ { if (count && ++steps > 3) count = steps = room = 0 }
      !count && /Traceback \(most recent|^FATAL|Error: / { room = kept / 4 }
      room > size { first[++count] = $0; of[count] = n; room -= size }
      END {
        shown = 0
        for (k = 1; k <= count && of[k] <= from; k++) {
          show(first[k], at[of[k]], "\n"); all += length(first[k]) + 1 }
        while (all > kept && from < n) { from++; all -= length(line[from]) + 1 }
        for (k = from + 1; k <= n; k++) show(line[k], at[k], k < n || end == "" ? "\n" : "")
        if (before >= 0) printf "\001%s", numbers }'
  printf '\000'
done"""
_TOGETHER = 8 << 20
"Bytes of all ends that one command sends; `MAX_REPLY` is twice that."
_LEAST = 4096
"Bytes of a log's end that are read in any case."
_LINE = 200
"Bytes of that line, at most."
_COUNTED = 1 << 30
"Bytes of a log whose lines are counted, which takes the remote host a second."
_LOOK = '[ ! -f "$2" ] || { wc -c <"$2" && head -c "$1" "$2"; }'


class LogFile(Struct, frozen=True):
    """A log file; `size` in bytes, None if the file does not exist yet."""

    path: str
    size: int | None = None
    text: bool | None = None
    "Whether it looks like text."


def ends(transport: Transport, paths: Sequence[str]) -> list[Piece]:
    """The end of each log without the frames of tracebacks; an empty text for one that cannot be read.

    One command reads those of up to some hundred logs. Of very many, less of each is read.
    """
    most = max(_LEAST, min(LOG_END, _TOGETHER // max(1, len(paths))))
    parts = (
        part[start : start + _TOGETHER // most]
        for part in batches(paths)
        for start in range(0, len(part), _TOGETHER // most)
    )
    return [piece for part in parts for piece in _ends(transport, part, most)]


def _ends(transport: Transport, paths: Sequence[str], most: int) -> list[Piece]:
    sizes = (_SEARCHED, most - _LINE, _LINE, _COUNTED)
    argv = ["sh", "-c", _ENDS, "ends", *map(str, sizes), NO_FOLDER, *paths]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    sent = completed.out.split("\0", len(paths))
    return list(map(_end, paths, [*sent, *[""] * len(paths)]))


def _end(path: str, sent: str) -> Piece:
    """The end of a log as `_ENDS` prints it."""
    mark, text, numbers = (*sent.split("\1"), "", "")[:3]
    whole = mark + text
    known = re.findall("([0-9]{1,9}):([0-9]{1,18})", numbers) if len(whole) <= LOG_END else []
    above = mark.count("\n")
    return Piece(whole[-LOG_END:], tuple((int(at) + above, int(number)) for at, number in known), path)


def look(transport: Transport, path: str) -> LogFile:
    """Size and kind of a log, without reading all of it.

    Raises:
        CommandFailed: it cannot be read.
    """
    argv = ["sh", "-c", _LOOK, "look", str(_HEAD), path]
    reply = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if reply.returncode:
        raise failed(argv, transport.where, reply.returncode, reply.stderr)
    size, _, head = reply.stdout.partition(b"\n")
    exists = re.fullmatch(rb" *[0-9]{1,18} *", size)
    return LogFile(path, int(size), b"\0" not in head) if exists else LogFile(path)


def path_of(transport: Transport, job: Job, *, stderr: bool = False) -> str:
    """The log of a job: from the ledger, else from Slurm.

    Raises:
        CommandFailed, RequestError: see `find_log`.
    """
    if job.run is not None and not stderr:
        return job.log
    return find_log(transport, job.record, job.id, stderr=stderr)


def is_pruned(transport: Transport, job: Job) -> bool:
    """Whether the folder that the job ran in no longer exists."""
    test = ["test", "-d", job.record.folder] if job.record else []
    return bool(test) and transport.run(test, timeout=COMMAND_TIMEOUT).returncode != 0


PART = 1 << 17
"Bytes of a log that one command reads."
LONGEST = 1 << 14
"Bytes after which a line is cut into several."
_PART = '[ -e "$1" ] || exit 0; exec <"$1" || exit; wc -c <"$1"; tail -c "+$2" | head -c "$3"'


class Part(Struct, frozen=True):
    """Some bytes of a log; `size` is that of the whole log, None if it does not exist yet."""

    content: bytes = b""
    size: int | None = None


def read_part(transport: Transport, path: str, start: int, most: int = PART) -> Part:
    """The bytes of a log from its byte `start` on, at most `most` of them.

    Raises:
        CommandFailed: the log cannot be read.
    """
    argv = ["sh", "-c", _PART, "part", path, str(start + 1), str(most)]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    if not completed.stdout:
        return Part()
    size, _, content = completed.stdout.partition(b"\n")
    if not re.fullmatch(rb" *[0-9]{1,18} *", size):
        raise CommandFailed(f"{transport.where} did not send the log {path}", "Try again.")
    return Part(content[:most], int(size))


class Lines:
    """Cuts a log into lines while it arrives.

    A line of more than `LONGEST` bytes becomes several, cut between two characters of UTF-8.
    """

    def __init__(self, start: int = 0, rank: int | None = None) -> None:
        self.offset = start
        "The byte after the last whole line; a reader that starts there loses and repeats nothing."
        self._rank = re.compile(rank_pattern(rank).encode()) if rank is not None else None
        self._held = b""
        self._continues = False
        "Whether what comes next is the rest of a long line,"
        self._chosen = True
        "which was of the rank."

    @property
    def reached(self) -> int:
        """The next byte to read."""
        return self.offset + len(self._held)

    @property
    def unfinished(self) -> bytes:
        """The beginning of a line that has no end yet; empty if it is not of the rank."""
        return self._held if self._is_chosen(self._held) else b""

    def __call__(self, content: bytes) -> list[bytes]:
        """The lines of the rank that end in the next bytes, without their line feeds."""
        *whole, self._held = (self._held + content).split(b"\n")
        lines = [piece for line in whole for piece in self._pieces(line, is_whole=True)]
        return [*lines, *self._pieces(self._held, is_whole=False)]

    def _pieces(self, line: bytes, *, is_whole: bool) -> list[bytes]:
        """The parts of a line, and of a line without an end those that are complete."""
        pieces = []
        while len(line) > LONGEST:
            cut = _cut(line)
            pieces += self._passed(line[:cut], ends=False)
            line = line[cut:]
        if is_whole:
            return [*pieces, *self._passed(line, ends=True)]
        self._held = line
        return pieces

    def _passed(self, piece: bytes, *, ends: bool) -> list[bytes]:
        self._chosen = self._is_chosen(piece)
        self._continues = not ends
        self.offset += len(piece) + ends
        return [piece] if self._chosen else []

    def _is_chosen(self, piece: bytes) -> bool:
        if self._continues:
            return self._chosen
        return self._rank is None or bool(self._rank.match(piece))


def _cut(line: bytes) -> int:
    """A place near `LONGEST` that is not within a character."""
    within = next((n for n in range(4) if line[LONGEST - n] & 0xC0 != 0x80), 0)
    return LONGEST - within


FIRST_PAUSE = 1.0
REST = 0.3
"Seconds for which the log of an ended job must not grow."
LONGEST_PAUSE = 10.0
"Seconds between two reads of a log that does not grow; many users share one controller."
READS_AFTER_END = 3
"Reads of a log after the job ended, even if the log still grows."

# The bytes of the log at which its last lines begin and end, or its last lines of a rank. The log may grow
# meanwhile. `tail` finds the lines fast only in a file, so that a pipe is read if all tries fail.
_TAIL = r"""
export LC_ALL=C
[ -e "$1" ] || { echo 0 0; exit; }
size=$(wc -c <"$1")
if [ "$3" ]; then
  start=$(head -c "$size" "$1" | grep -a -b -E "$3" | tail -n "$2" | head -n 1 | cut -d: -f1)
  echo "${start:-0}" "$size"
  exit
fi
for try in 1 2 3 4 5 6; do
  if [ "$try" = 6 ]; then part=$(head -c "$size" "$1" | tail -n "$2" | wc -c); break; fi
  size=$(wc -c <"$1") part=$(tail -n "$2" "$1" | wc -c)
  [ "$size" -ne "$(wc -c <"$1")" ] || break
done
echo "$((size - part)) $((size))"
"""

# Slurm creates the log when the job starts; before that there is nothing to read.
_READ = '[ -e "$1" ] || exit 0; [ "$3" ] || exec tail -c "+$2" "$1"; tail -c "+$2" "$1" | head -c "$3"'


def read(transport: Transport, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The log from its byte `start` on, up to `end`; nothing if there is no log yet."""
    most = "" if end is None else str(max(0, end - start))
    return transport.stream(["sh", "-c", _READ, "tail", path, str(start + 1), most], timeout=COMMAND_TIMEOUT)


def rank_pattern(rank: int) -> str:
    r"""A regular expression for the labels that torchrun and srun put before the lines of a rank.

    >>> rank_pattern(3)
    '^(\\[rank3\\]| *0*3):'
    """
    return rf"^(\[rank{rank}\]| *0*{rank}):"


def last_lines(transport: Transport, path: str, lines: int, rank: int | None = None) -> tuple[int, int]:
    """The bytes at which the last lines of a log begin and end, or its last ones with the label of a rank.

    Raises:
        CommandFailed: the log cannot be read.
    """
    argv = ["sh", "-c", _TAIL, "tail", path, str(lines), "" if rank is None else rank_pattern(rank)]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    reply = re.fullmatch("([0-9]{1,18}) ([0-9]{1,18})", completed.out.strip())
    return (int(reply[1]), int(reply[2])) if reply else (0, 0)


class OfRank:
    """Passes on only the lines that are labelled with a rank."""

    def __init__(self, show: Callable[[bytes], None], rank: int) -> None:
        self._show, self._lines = show, Lines(rank=rank)
        self.found = False
        "Whether there was such a line."

    def __call__(self, part: bytes) -> None:
        """Pass on the lines that end in this part."""
        for line in self._lines(part):
            self.found = True
            self._show(line + b"\n")

    def finish(self) -> None:
        """Pass on the last line, which has no end."""
        if self._lines.unfinished:
            self(b"\n")


class Shown:
    """How much of a log has been shown; it outlives the connection that the log came over."""

    def __init__(self, show: Callable[[bytes], None], start: int = 0) -> None:
        self._show = show
        self.bytes = start
        self.steps = 0
        "Grows whenever the remote host has replied."

    def __call__(self, chunk: bytes) -> None:
        """Show the next bytes."""
        self._show(chunk)
        self.bytes += len(chunk)
        self.steps += 1


class Followed:
    """A log that is followed until its job has ended and it no longer grows."""

    def __init__(self, job: JobId, path: str, shown: Shown, *, has_ended: bool = False) -> None:
        self.job = job
        self.path = path
        self.shown = shown
        self.pause = FIRST_PAUSE
        "Seconds until the next read."
        self._reads_after_end = 0
        self._unlisted = QUERIES_UNTIL_GONE if has_ended else 0
        "How often in a row Slurm did not list the job."

    def step(self, transport: Transport, states: tuple[JobState, ...]) -> bool:
        """Show what is new; returns whether all has been shown.

        Args:
            states: of the job, queried before, so that the last lines of an ended job are read too.
        """
        before = self.shown.bytes
        self.shown.steps += 1
        for chunk in read(transport, self.path, before):
            self.shown(chunk)
        self._unlisted = 0 if states else self._unlisted + 1
        is_over = ended(states) and (bool(states) or self._unlisted >= QUERIES_UNTIL_GONE)
        grew = self.shown.bytes > before
        if (self._reads_after_end and is_over and not grew) or self._reads_after_end == READS_AFTER_END:
            return True
        self._reads_after_end = self._reads_after_end + 1 if is_over else 0
        self.pause = REST if is_over else FIRST_PAUSE if grew else min(self.pause * 1.5, LONGEST_PAUSE)
        return False


def follow(
    transport: Transport, job: JobId, path: str, shown: Shown, sleep: Callable[[float], None] = time.sleep
) -> tuple[JobState, ...]:
    """Show the log until the job has ended and its log no longer grows; returns how the job ended."""
    return follow_all(transport, [Followed(job, path, shown)], sleep)[job]


def follow_all(
    transport: Transport, logs: Sequence[Followed], sleep: Callable[[float], None] = time.sleep
) -> dict[JobId, tuple[JobState, ...]]:
    """Show the logs of jobs of one site until the jobs have ended; returns how they ended.

    One query serves all jobs.
    """
    found: dict[JobId, tuple[JobState, ...]] = {}
    left = list(logs)
    while True:
        states = query_states(transport, [one.job for one in left], found)
        found |= states
        left = [one for one in left if not one.step(transport, states[one.job])]
        if not left:
            return found
        sleep(min(one.pause for one in left))
