"""Prints how a submission proceeds: what is sent where, with a bar on a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from slurmgen.cli.job_output import say
from slurmgen.cli.submit_output import amount_of, warn
from slurmgen.errors import ConfigError
from slurmgen.jobs.exactly_once import Count
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.one_job import Outcome
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.submission import Observer
from slurmgen.remote.ssh.prompt import Terminal, terminal_prompt
from slurmgen.slurm.sizes import of_bytes


class Printer(Observer):
    """Prints each event of a submission to stderr."""

    def __init__(
        self,
        prepared: Prepared,
        notes: Iterable[str],
        show: Callable[[Sequence[Outcome]], None] = lambda _: None,
    ) -> None:
        self._prepared, self._show = prepared, show
        self._notes = tuple(notes)

    def questions(self) -> Terminal | None:
        """See Observer."""
        return terminal_prompt()

    def connected(self, where: str, entry: Record) -> None:
        """See Observer."""
        warn(self._prepared, self._notes)
        if entry.key != self._prepared.record.key:
            say(f"the submission of {entry.submitted} is unsettled; checking whether it became a job")
        say(f"submitting {amount_of(self._prepared)} to {where}")
        submission = self._prepared.submission
        if submission.login_script:
            log = f"{submission.parent}/before_login/{submission.login_hash}.log"
            say(f"before_login runs there first, unless the same lines have run before; its output: {log}")

    def sending(self) -> AbstractContextManager[Count | None]:
        """A bar on a terminal, and nothing elsewhere."""
        return _bar()

    def submitted(self, outcomes: Sequence[Outcome]) -> None:
        """See Observer."""
        self._show(outcomes)

    def not_recorded(self, record: Record, error: ConfigError) -> None:
        """See Observer."""
        say(
            f"warning: job {record.id} is submitted, in {record.folder}, but not in your records: "
            f"{error.fact}. Name its site with --site {record.site}."
        )


class LinePrinter(Printer):
    """Prints lines alone: several sites are sent to at the same time, and would share one bar."""

    def sending(self) -> AbstractContextManager[Count | None]:
        """See Observer."""
        return nullcontext()


@contextmanager
def _bar() -> Iterator[Count | None]:
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console  # slow to import, and for a terminal only
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    columns = ("sending", BarColumn(), "{task.description}", TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def count(part: int, total: int) -> None:
            sent = int(bar.tasks[task].completed) + part
            amount = f"{of_bytes(sent)} of {of_bytes(total)}"
            bar.update(task, completed=sent, total=max(total, 1), description=amount, visible=True)

        yield count
