"""Runner: one job of a race, and the connection to its site, which is opened again after it broke."""

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.job import Connect, Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.report import Report
from slurmgen.jobs.status import query_site
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"Seconds between two queries: a job that has started waits for at most so long."
_REST = 5.0
"Seconds that a query under way may take to end."
Result = TypeVar("Result")
Say = Callable[[str], None]
"Receives what happens, line by line."


def pauses() -> Iterator[float]:
    """The seconds between the queries of one site, without end."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


class Runner:
    """One job of a race. Only one thread uses its connection at a time: `watch` until `rest`."""

    def __init__(
        self, record: Record, route: Route, connect: Connect, warn: Say, transport: Transport | None = None
    ) -> None:
        self.record = record
        self.job = Job.of(record, route)
        self.is_earlier = transport is None
        "Whether the job is from an earlier try of the command."
        self._connect, self._warn, self._transport = connect, warn, transport
        self._warning, self._ended = "", False
        self._resting = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The job and its site, in a message."""
        return f"job {self.record.id} at {self.record.site}"

    def watch(self, replies: "SimpleQueue[tuple[Runner, Report]]") -> None:
        """Query the job in a thread that is not waited for at exit; each report is put into `replies`."""
        if self._thread:
            return

        def run() -> None:
            for pause in pauses():
                if report := self.report():
                    replies.put((self, report))
                if self._resting.wait(pause):
                    return

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def rest(self) -> bool:
        """Stop to query the job; False if a query under way does not end."""
        self._resting.set()
        if self._thread:
            self._thread.join(_REST)
        return self._thread is None or not self._thread.is_alive()

    def report(self) -> Report | None:
        """The state of the job; None if its site does not reply now."""
        return self.tried(lambda transport: query_site(transport, [self.job], explain=False)[0])

    def tried(self, action: Callable[[Transport], Result]) -> Result | None:
        """The result of an action at its site; None if it failed, which is reported once."""
        try:
            self._transport = self._transport or self._connect(self.job.route)
            result = action(self._transport)
        except SlurmgenError as error:
            if error.fact != self._warning and not self._ended:
                self._warn(f"{self.name}: {error.fact}")
            self._warning = error.fact
            self.close()
            return None
        self._warning = ""
        return result

    def connected(self) -> Transport:
        """The connection to its site.

        Raises:
            SlurmgenError: there is none.
        """
        self._transport = self._transport or self._connect(self.job.route)
        return self._transport

    def end(self) -> None:
        """Stop to query the job, without waiting for a query under way, and close the connection."""
        self._ended = True
        self._resting.set()
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._transport:
            self._transport.close()
        self._transport = None
