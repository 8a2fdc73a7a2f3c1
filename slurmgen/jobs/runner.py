"""Runner: one site of a race. A thread of it submits the job, and then queries its state."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TypeVar

from msgspec import Struct

from slurmgen.errors import CommandFailed, SlurmgenError, Unresolved
from slurmgen.jobs.job import Connect, Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.one_job import Outcome
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.status import query_site
from slurmgen.jobs.submission import Observer, submission, with_secrets
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"Seconds between two queries: a job that has started waits for at most so long."
_REST = 5.0
"Seconds that what a thread does may take to end."
Result = TypeVar("Result")
Say = Callable[[str], None]
"Receives what happens, line by line; several threads call it."


class Entrant(Struct, frozen=True):
    """One site of a race."""

    entry: Record
    route: Route
    prepare: Callable[[], tuple[Prepared, Observer]]
    "The submission and its observer; only called if it is not known whether the entry has a job."


def pauses() -> Iterator[float]:
    """The seconds between the queries of one site, without end."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


class Runner:
    """One site of a race. Only one thread uses its connection at a time: its own from `start` to `rest`."""

    def __init__(self, race: Race, entrant: Entrant, connect: Connect, say: Say) -> None:
        self.key, self.route, self.record = entrant.entry.key, entrant.route, entrant.entry
        self.is_earlier = self.has_job
        "Whether the job is from an earlier try of the command."
        self._race, self._prepare, self._connect, self._say = race, entrant.prepare, connect, say
        self._transport: Transport | None = None
        self._submission = ExitStack()
        self._thread: threading.Thread | None = None
        self._resting, self._ended, self._warning = threading.Event(), False, ""

    @property
    def has_job(self) -> bool:
        """Whether it is known that there is a job."""
        return not self.record.pending

    @property
    def job(self) -> Job:
        """The job."""
        return Job.of(self.record, self.route)

    @property
    def name(self) -> str:
        """The job and its site, in a message."""
        return f"job {self.record.id} at {self.record.site}"

    def start(self, events: "SimpleQueue[Event]") -> None:
        """Ask for the secrets of the job, then start the thread. Python does not wait for it at exit.

        The thread puts each report into `events`, and the error that ends it, if there is one.

        Raises:
            SlurmgenError: the submission cannot be prepared.
        """
        made = None if self.has_job else self._prepared()

        def run() -> None:
            try:
                if made:
                    self._submit(*made)
                self._watch(events)
            except Exception as error:  # the thread that reads the events handles it
                events.put((self, error))
            if self._ended:  # it may have connected after `end`
                self.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def _prepared(self) -> tuple[Prepared, Observer]:
        prepared, observer = self._prepare()
        return with_secrets(prepared, observer), observer

    def _submit(self, prepared: Prepared, observer: Observer) -> None:
        """Submit the job; once more over a new connection if the reply is lost, as by one that was kept."""
        try:
            outcome = self._submitted(prepared, observer)
        except Unresolved as error:
            if self._resting.is_set():
                raise
            self._say(f"{self.route.site}: {error.fact}; connecting again")
            Races().claim_again(self.key)  # so that no failure removes the entry
            outcome = self._submitted(prepared, observer)
        self.record = outcome.record
        self._say(f"job {self.record.id} waits at {self.route.site}; its folder is {self.record.folder}")

    def _submitted(self, prepared: Prepared, observer: Observer) -> Outcome:
        submitting = submission(prepared, self._login, observer=observer, entry=self.record)
        return self._submission.enter_context(submitting)

    def _login(self) -> Transport:
        """Connect in order to submit the job.

        Raises:
            CommandFailed: it is not wanted any more.
        """
        transport = self._transport = self._connect(self.route)
        if self._resting.is_set() or Races().current(self._race).over:
            transport.close()
            raise CommandFailed("the race was decided or cancelled before anything was sent")
        return transport

    def _watch(self, events: "SimpleQueue[Event]") -> None:
        for pause in pauses():
            if report := self.report():
                events.put((self, report))
            if self._resting.wait(pause):
                return

    def stop(self) -> None:
        """Let the thread end after the query under way; a submission under way loses its connection."""
        self._resting.set()
        if not self.has_job:
            self.close()

    def rest(self) -> bool:
        """Stop the thread; False if what it does does not end."""
        self.stop()
        if self._thread:
            self._thread.join(_REST)
        return self._thread is None or not self._thread.is_alive()

    def report(self) -> Report | None:
        """The state of the job; None if its site does not reply now."""
        return self.tried(lambda transport: query_site(transport, [self.job], explain=False)[0])

    def tried(self, action: Callable[[Transport], Result]) -> Result | None:
        """The result of an action at its site; None if it failed, which is reported once."""
        try:
            result = action(self.connected())
        except SlurmgenError as error:
            if error.fact != self._warning and not self._ended:
                self._say(f"{self.name}: {error.fact}")
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
        transport = self._transport = self._transport or self._connect(self.route)
        return transport

    def end(self) -> None:
        """Stop the thread, without waiting for what it does, and close the connection."""
        self._ended = True
        self._resting.set()
        self.close()

    def close(self) -> None:
        """Close the connection."""
        transport, self._transport = self._transport, None
        if transport:
            transport.close()


Event = tuple[Runner, Report | Exception]
"A report of a job, or the error that ended its thread."
