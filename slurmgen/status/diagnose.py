"""Find the cause of a failure in log files of this machine, whatever program wrote them."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO

from msgspec import Struct

from slurmgen.status.evidence import Log, Piece, reports
from slurmgen.status.failure import Why, diagnosed

_BLOCK = 1 << 20
_TAIL = 4
"Blocks of a log's end that are searched: a failure of Lightning writes 20 kB for each rank."
_HEAD = 1 << 16
"Bytes of a log's beginning, which shows how the job was set up,"
_FIRST = 1 << 16
"from its first failure on, and"
_KEPT = 1 << 17
"of its end, without the frames of tracebacks, that are read."
_FRAME = re.compile(rb'^(?:\[[^]\n]{0,40}\]: ?){0,2}(?:    |  File "|frame #\d)[^\n]*', re.MULTILINE)
_FAILURE = b"Traceback (most recent call last)"
_MOST_EVIDENCE = 100
_KINDS: dict[str, str] = {"own": "slurm", "memory": "slurm", "fatal": "cause", "lack": "cause"}


class Evidence(Struct, frozen=True, kw_only=True):
    """One line that shows that something failed, or is the consequence of a failure."""

    file: str
    number: int | None
    "The number of the line in its file."
    rank: int | None
    time: str
    "The last time that the log shows until then; empty if it shows none."
    kind: str
    "`exception`, `report` of a launcher, or the kind of a sign: `slurm`, `cause`, `setup` or `effect`."
    line: str


class LogDiagnosis(Struct, frozen=True, kw_only=True):
    """What logs show of a failure."""

    files: list[str]
    cause: Why | None
    "Null if the logs show none."
    ending: list[str]
    "The last lines of the program, not of its launcher."
    evidence: list[Evidence]
    "All that the logs show of failures, in their order; the first hundred."


class Binary(Exception):
    """A file is not text."""


def diagnose(streams: Mapping[str, BinaryIO]) -> LogDiagnosis:
    """The first cause of a failure in some logs, which are read together.

    Raises:
        Binary: a log is not text.
    """
    ranks = _ranks(list(streams))
    log = Log([part for name, stream in streams.items() for part in _parts(stream, name, ranks.get(name))])
    return LogDiagnosis(
        files=list(streams),
        cause=diagnosed(log),
        ending=log.ending.splitlines(),
        evidence=list(islice(_evidence(log), _MOST_EVIDENCE)),
    )


def _evidence(log: Log) -> Iterator[Evidence]:
    ended = ((log.at(max(0, log.text.find(one.line))), "report", one.line) for one in reports(log.text))
    raised = [(one.at, "exception", one.line) for one in log.raised]
    inside = {at for at, _, _ in raised}
    shown = (
        (one.at, _KINDS.get(one.sign.kind, one.sign.kind), one.line)
        for one in log.signs
        if one.at not in inside
    )
    for at, kind, line in sorted({*ended, *raised, *shown}):
        yield Evidence(
            file=log.file(at),
            number=log.number(at),
            rank=log.rank(at),
            time=log.time(at),
            kind=kind,
            line=line,
        )


def _ranks(names: Sequence[str]) -> dict[str, int]:
    """The ranks of files whose names differ in one number only, such as srun's `%t`.

    >>> _ranks(["job-12-0.out", "job-12-1.out", "notes"])
    {'job-12-0.out': 0, 'job-12-1.out': 1}
    """
    ranks: dict[str, int] = {}
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(re.sub("[0-9]+", "0", name), []).append(name)
    for group in alike.values():
        columns = list(zip(*(re.findall("[0-9]+", name) for name in group), strict=True))
        differing = [column for column in columns if len(set(column)) > 1]
        if len(differing) == 1:
            ranks |= {name: int(number[-6:]) for name, number in zip(group, differing[0], strict=True)}
    return ranks


def _parts(stream: BinaryIO, name: str, rank: int | None) -> list[Piece]:
    """The beginning of a log, its first failure, and its end, each once."""
    tail: deque[bytes] = deque(maxlen=_TAIL)
    head, first, first_line, lines = b"", b"", 0, 0
    while block := _block(stream):
        if not head:
            head = block[:_HEAD]
            if b"\0" in head[:4096]:
                raise Binary(name)
        if first_line and len(first) < _FIRST:
            first += block[: _FIRST - len(first)]
        elif not first_line and (at := block.find(_FAILURE)) >= 0:
            at = block.rfind(b"\n", 0, at) + 1
            first, first_line = block[at : at + _FIRST], lines + block.count(b"\n", 0, at) + 1
        lines += block.count(b"\n")
        tail.append(block)
    end = b"".join(tail)
    return _joined(head, (first, first_line), (end, lines - end.count(b"\n") + 1), name, rank)


def _block(stream: BinaryIO) -> bytes:
    """The next lines of a log; a very long line is cut."""
    block = stream.read(_BLOCK)
    return block + stream.readline(_BLOCK) if block else b""


def _joined(
    head: bytes, first: tuple[bytes, int], end: tuple[bytes, int], name: str, rank: int | None
) -> list[Piece]:
    """The pieces of a log in their order. A piece that the end has too is left out."""
    text, number = end
    pieces = []
    if number > 1:
        pieces.append((head.rpartition(b"\n")[0], 1))
        if head.count(b"\n") < first[1] < number:
            pieces.append(first)
    pieces += _last(text if len(text) <= _KEPT else _FRAME.sub(b"", text), number)
    return [Piece(text.decode(errors="replace"), ((0, number),), name, rank) for text, number in pieces]


def _last(text: bytes, number: int) -> Iterator[tuple[bytes, int]]:
    """What is kept of a log's end: its first failure and its last lines, or all of it if that is little."""
    cut = text.find(b"\n", max(0, len(text) - _KEPT)) + 1 if len(text) > _KEPT else 0
    at = text.rfind(b"\n", 0, max(0, text.find(_FAILURE))) + 1
    if cut and _FAILURE in text[:cut]:
        yield text[at : min(cut, at + _FIRST)], number + text.count(b"\n", 0, at)
    yield text[cut:], number + text.count(b"\n", 0, cut)
