"""A log in bounded parts of whole lines, for a reader that keeps its place across connections."""

import re

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.jobs.logs import rank_pattern
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed

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
