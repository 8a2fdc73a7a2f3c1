"""Print a log or a part of it, and follow it."""

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import click
from msgspec import Struct

from slurmgen.cli.options import connect
from slurmgen.errors import ConfigError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.follow import follow_through
from slurmgen.status.job import Job, job_id, recorded_logs
from slurmgen.status.logs import Followed, OfRank, Shown, last_lines, path_of
from slurmgen.status.query import end_of
from slurmgen.status.report_text import describe, lines
from slurmgen.status.slurm import outcome
from slurmgen.text import visible, without_commands

# Kept: backspace, tab, line feed, carriage return, SGR (colours) and EL (erase the line).
# Bytes 80 to 9F that are not part of UTF-8 are decoded to DC80 to DC9F. Changes of the writing direction can
# make a line look like another one (https://trojansource.codes).
_DIRECTIONS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS = re.compile(
    f"\x1b\\[[0-9;:]{{0,64}}[mK]|([\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f{_DIRECTIONS}])"
)
_LONGEST = 65536
"Characters of a line that are held back until its end is known."
_NO_LABELS = (
    "no line is labelled with rank {}; with --label-ranks, or label_ranks in slurmgen.toml, each line of a "
    "new job begins with its rank"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")


class Write(Protocol):
    """Shows a log part by part."""

    def __call__(self, part: bytes, /) -> None:
        """Show the next part."""

    def finish(self) -> None:
        """Show what was held back."""


class LogOutput:
    """Writes a log part by part: as it is, except to what it could steer, a terminal or a CI service."""

    def __init__(self, *, err: bool = False) -> None:
        stream = sys.stderr if err else sys.stdout
        is_terminal = stream is not None and stream.isatty()
        self._escape = Harmless() if is_terminal else WithoutCommands() if _runs_commands() else None
        self._err = err

    def __call__(self, part: bytes) -> None:
        """Write the next part."""
        click.echo(self._escape(part) if self._escape else part, nl=False, err=self._err)

    def finish(self) -> None:
        """Write what was held back."""
        if self._escape:
            click.echo(self._escape(b"", final=True), nl=False, err=self._err)


class Harmless:
    """Escapes the controls in a log part by part; a sequence that is cut is held back until the next part."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._held = ""

    def __call__(self, part: bytes, *, final: bool = False) -> bytes:
        """The part, after what was held back of the one before."""
        text = self._held + self._decode(part, final)
        cut = _UNFINISHED.search(text) if not final else None
        end = cut.start() if cut else len(text)
        self._held = text[end:]
        return _CONTROLS.sub(_escaped, text[:end]).encode(errors="surrogateescape")


class WithoutCommands:
    """Escapes the commands of GitHub Actions and Azure Pipelines in a log part by part, line by line."""

    def __init__(self) -> None:
        self._held = ""

    def __call__(self, part: bytes, *, final: bool = False) -> bytes:
        """The lines that are complete, after what was held back of the part before."""
        text = self._held + part.decode("latin-1")
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        if final or len(text) - end > _LONGEST:
            end = len(text)
        self._held = text[end:]
        return without_commands(text[:end]).encode("latin-1")


def _runs_commands() -> bool:
    """Whether what is printed goes to a service that executes commands in it."""
    return bool(os.environ.get("GITHUB_ACTIONS") or os.environ.get("TF_BUILD"))


def harmless(log: bytes) -> bytes:
    r"""A log for a terminal: colours and what progress bars need stay, other controls are escaped.

    >>> harmless(b"\x1b[31mred\x1b[0m\r50 %\x1b[K\x1b[2J\x07\n")
    b'\x1b[31mred\x1b[0m\r50 %\x1b[K\\x1b[2J\\x07\n'
    """
    return Harmless()(log, final=True)


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    if "\u0600" < match[1] < "\ud800":
        return f"\\u{ord(match[1]):04x}"
    return "".join(f"\\x{byte:02x}" for byte in match[1].encode(errors="surrogateescape"))


def writer(rank: int | None, write: Write) -> tuple[Callable[[bytes], None], Callable[[], None]]:
    """Two functions: one shows the next part of a log, the other is called at its end.

    Args:
        rank: show only the lines that are labelled with this rank; None for all lines.
        write: shows what is left of the log.
    """
    if rank is None:
        return write, write.finish
    lines = OfRank(write, rank)

    def finish() -> None:
        lines.finish()
        write.finish()
        if not lines.found:
            click.echo(_NO_LABELS.format(rank), err=True)

    return lines, finish


class Part(Struct, frozen=True, kw_only=True):
    """Which part of a log the user wants to see."""

    start: int = 0
    "The first byte."
    tail: int | None = None
    "Only so many lines, the last ones."
    rank: int | None = None
    "Only the lines of this rank."
    stderr: bool = False
    "The file of stderr, if it has one of its own."

    @property
    def options(self) -> str:
        """The options for a command that continues, but for the first byte."""
        return (
            f"{' --stderr' if self.stderr else ''}{f' --rank {self.rank}' if self.rank is not None else ''}"
        )

    def path(self, transport: Transport, job: Job) -> str:
        """The log of a job: from the ledger, else from Slurm."""
        return path_of(transport, job, stderr=self.stderr)

    def bytes(self, transport: Transport, path: str) -> tuple[int, int | None]:
        """The first byte of a log to show, and the end of its last lines, after which it may grow."""
        return last_lines(transport, path, self.tail, self.rank) if self.tail else (self.start, None)


def offer_stderr(records: Iterable[Record | None], job: JobId) -> None:
    """Name the file of stderr, if there is one."""
    for record in filter(None, records):
        for path in recorded_logs(record, str(job))[1:]:
            echo(f"stderr is in {path}; `slurmgen logs {job} --stderr` shows it")


def pruned(job: Job, what: str = "log") -> str:
    """That there is no log any more, or nothing else."""
    return f"job {job.id} was pruned: its folder at {job.route.site} is gone, and its {what} with it"


def echo(text: str) -> None:
    """Print a line to stderr."""
    click.echo(visible(text), err=True)


INTERRUPTED = 130
"Exit code after ^C."
WHOLE = Part()


def follow_to_end(
    transport: Transport,
    route: Route,
    job: JobId,
    path: str,
    part: Part = WHOLE,
    start: int = 0,
    *,
    err: bool = False,
    fails: bool = False,
) -> None:
    """Follow the log until the job ends, and print its state; exits as `exit_code_of`.

    Args:
        route: how to connect again.
        fails: exit with 1 in any case.
    """
    show, finish = writer(part.rank, LogOutput(err=err))
    shown = Shown(show, start)
    try:
        states, transport = _follow(transport, route, job, path, shown, part)
    finally:
        finish()
    records = records_of(route, job)
    with transport:
        state = print_end(transport, records, route, job, states)
    if not part.stderr:
        offer_stderr(records, job)
    click.get_current_context().exit(1 if fails else exit_code_of(state))


def exit_code_of(state: str) -> int:
    """0 for a job that COMPLETED, 3 for one whose end is not known, else 1."""
    return 0 if state == "COMPLETED" else 3 if state in ("GONE", "UNKNOWN") else 1


def _follow(
    transport: Transport, route: Route, job: JobId, path: str, shown: Shown, part: Part
) -> tuple[tuple[JobState, ...], Transport]:
    try:
        states, transport = follow_through(
            transport,
            lambda: connect(route, interactive=False),
            [Followed(job, path, shown, has_ended=any(record.final for record in records_of(route, job)))],
            report=echo,
            resume_command=lambda: (
                f"slurmgen logs -f {job} --site {route.site}{part.options} --start {shown.bytes}"
            ),
        )
        return states[job], transport
    except KeyboardInterrupt:
        echo("")
        echo(f"job {job} is not cancelled; see `slurmgen logs -f {job}` and `slurmgen cancel {job}`")
        click.get_current_context().exit(INTERRUPTED)


def records_of(route: Route, job: JobId) -> tuple[Record, ...]:
    """The records of a job; none if the ledger cannot be read, since the log was shown all the same."""
    with suppress(ConfigError):
        found = Ledger().with_id(job.number.partition("_")[0])
        return tuple(
            one for one in found if one.site == route.site and job.identity in (None, job_id(one).identity)
        )
    return ()


def print_end(
    transport: Transport,
    records: Iterable[Record],
    route: Route,
    job: JobId,
    states: tuple[JobState, ...],
) -> str:
    """Keep in the ledger how a job ended, and print it and the bad nodes that it found; returns its state."""
    reports = [end_of(transport, Job(job, route, record), states) for record in records]
    run = next((report for report in reports if report.job.segments), None)
    for report in reports:
        if report.bad_nodes and report.why and report is not run:
            echo(f"{report.why.what}. {report.why.todo}")
    for line in lines(run) if run else describe(states, job, transport.where):
        echo(line)
    return run.state if run else outcome(states)
