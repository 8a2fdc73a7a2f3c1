"""Which part of a job's log a command shows, and why there may be none."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from msgspec import Struct

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.ledger import Record
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId


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

    def path(self, transport: "Transport", job: "Job") -> str:
        """The log of a job: from the ledger, else from Slurm."""
        from slurmgen.jobs.log_files import path_of

        return path_of(transport, job, stderr=self.stderr)

    def bytes(self, transport: "Transport", path: str) -> tuple[int, int | None]:
        """The first byte of a log to show, and the end of its last lines, after which it may grow."""
        from slurmgen.jobs.logs import last_lines

        return last_lines(transport, path, self.tail, self.rank) if self.tail else (self.start, None)


def offer_stderr(records: "Iterable[Record | None]", job: "JobId") -> None:
    """Name the file of stderr, if there is one."""
    from slurmgen.jobs.log_paths import recorded_logs

    for record in filter(None, records):
        for path in recorded_logs(record, str(job))[1:]:
            echo(f"stderr is in {path}; `slurmgen logs {job} --stderr` shows it")


def pruned(job: "Job", what: str = "log") -> str:
    """That there is no log any more, or nothing else."""
    return f"job {job.id} was pruned: its folder at {job.route.site} is gone, and its {what} with it"


def echo(text: str) -> None:
    """Print a line to stderr."""
    from slurmgen.text import visible

    click.echo(visible(text), err=True)
