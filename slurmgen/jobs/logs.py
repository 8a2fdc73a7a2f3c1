"""What is in the log of a job, and following it until the job ends."""

import re
import time
from collections.abc import Callable, Iterator, Sequence

from slurmgen.jobs.slurm_client import QUERIES_UNTIL_GONE, ended, query_states
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FIRST_PAUSE = 1.0
REST = 0.3
"Seconds for which the log of an ended job must not grow."
LONGEST_PAUSE = 10.0
"Seconds between two reads of a log that does not grow; many users share one controller."
READS_AFTER_END = 3
"Reads of a log after the job ended, even if the log still grows."
LONGEST_LINE = 1 << 16
"Bytes after which a line that does not end is shown, or left out, by its beginning."

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


def tail_start(transport: Transport, path: str, lines: int, rank: int | None = None) -> int:
    """The byte at which `last_lines` begin."""
    return last_lines(transport, path, lines, rank)[0]


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
        self._show = show
        self._pattern = re.compile(rank_pattern(rank).encode())
        self._held = b""
        self.found = False
        "Whether there was such a line."

    def __call__(self, part: bytes) -> None:
        """Pass on the lines that end in this part."""
        *lines, self._held = (self._held + part).split(b"\n")
        if len(self._held) > LONGEST_LINE:
            lines, self._held = [*lines, self._held], b""
        for line in lines:
            if self._pattern.match(line):
                self.found = True
                self._show(line + b"\n")

    def finish(self) -> None:
        """Pass on the last line, which has no end."""
        if self._held:
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
            transport: the connection to the job's site.
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
    transport: Transport,
    job: JobId,
    path: str,
    shown: Shown,
    sleep: Callable[[float], None] = time.sleep,
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
