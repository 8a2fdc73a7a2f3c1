"""Submit one job to several sites, keep the first that starts, and cancel the others."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import Empty, SimpleQueue
from typing import TypeVar

from msgspec import Struct

from slurmgen.errors import (
    CommandFailed,
    Interrupted,
    RemoteError,
    RequestError,
    SlurmgenError,
    TwinError,
    Unresolved,
)
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.races import Race, Races, close_gate, open_gate
from slurmgen.plan.requeue import GATE_SECONDS
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.status.job import Connect, Job
from slurmgen.status.query import query_site, save_final_states
from slurmgen.status.report import Report
from slurmgen.submit.cancel import cancel_jobs, settle
from slurmgen.submit.prepare import Prepared
from slurmgen.submit.submission import Observer, Outcome, submissions, with_secrets
from slurmgen.text import counted, listed

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"Seconds between two queries: a job that has started waits for at most so long."
_REST = 5.0
"Seconds that what a thread does may take to end."
Result = TypeVar("Result")
Say = Callable[[str], None]
"Receives what happens, line by line; several threads call it."


def pauses() -> Iterator[float]:
    """The seconds between the queries of one site, without end."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


class Runner:
    """One site of a race. Only one thread uses its connection at a time: its own from `start` to `rest`.

    Args:
        prepare: returns the submission and its observer; only called if it is not known whether the entry
            has a job.
    """

    def __init__(
        self,
        race: Race,
        entry: Record,
        route: Route,
        prepare: Callable[[], tuple[Prepared, Observer]],
        connect: Connect,
        say: Say,
    ) -> None:
        self.key, self.route, self.record = entry.key, route, entry
        self.is_earlier = self.has_job
        "Whether the job is from an earlier try of the command."
        self._race, self._prepare, self._connect, self._say = race, prepare, connect, say
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
        submitting = submissions([prepared], self._login, observer=observer, claimed=[self.record])
        return self._submission.enter_context(submitting)[0]

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

POLL = 1.0
"Seconds after which the ledger is read again: another command may have cancelled the race."
_AGAIN = "The same command continues; until then, none of its jobs runs the program."


def hint(race: Race) -> str:
    """What to do about a race that is not decided."""
    return f"{_AGAIN} `slurmgen cancel {race.key}` cancels them."


class Contest:
    """One race, while its jobs are submitted and wait."""

    def __init__(self, race: Race, runners: Sequence[Runner], say: Say) -> None:
        self._races, self._say = Races(), say
        self._race = self._races.current(race)
        self._runners = {runner.key: runner for runner in runners}
        self._left = dict(self._runners)
        self._errors: dict[str, SlurmgenError] = {}
        self._events = SimpleQueue[Event]()
        self._last: Report | None = None
        "What the last event reported."

    def winner(self) -> Runner:
        """The job whose gate was opened.

        Raises:
            CommandFailed: no site took the job, or no job ran the program, or another command ended the race.
            Unresolved: no site is known to have taken the job.
            RemoteError, RequestError: all sites failed for this one reason.
        """
        # Those that have a job first: it is queried while the user is asked for a secret of another one.
        for runner in sorted(self._runners.values(), key=lambda one: not one.has_job):
            self._start(runner)
        while True:
            chosen = self._chosen()
            if chosen is None:
                self._next()
            elif self._is_opened(chosen):
                return chosen
            else:
                self._take_back(chosen)

    def _start(self, runner: Runner) -> None:
        try:
            runner.start(self._events)
        except SlurmgenError as error:
            self._leave_out(runner, error)

    def _chosen(self) -> Runner | None:
        """The site of the chosen job, once its job is known.

        Raises:
            SlurmgenError: there is nothing left to choose.
        """
        key = self._race.chosen
        if not key and self._race.over:
            raise CommandFailed(
                f"another command has cancelled or replaced the race {self._race.key}",
                "`slurmgen status` shows its jobs, none of which runs the program.",
            )
        if not key and not self._left:
            raise self._without_winner()
        if key and (key not in self._runners or key in self._errors):
            raise CommandFailed("the site of the chosen job was not reached", hint(self._race))
        return self._runners[key] if key and self._runners[key].has_job else None

    def _without_winner(self) -> SlurmgenError:
        """The error for a race without any job left, which is over unless there may be one."""
        errors = [self._errors.get(key) for key in self._runners]
        has_none = all(errors)
        if has_none and any(entry.pending for entry in self._races.entries(self._race)):
            return next(error for error in reversed(errors) if error)
        self._races.finish(self._race)
        if not has_none:
            return CommandFailed(
                f"no job of {counted(len(self._runners), 'site')} has run the program",
                "`slurmgen status` shows how each has ended; the same command submits new ones.",
            )
        if len(errors) > 1 and len({str(error) for error in errors}) == 1:  # it is not the sites' own
            return next(iter(self._errors.values()))
        reasons = (f"{self._runners[key].route.site}: {error.fact}" for key, error in self._errors.items())
        return CommandFailed(f"no site took the job: {'; '.join(reasons)}", "`slurmgen where` compares them.")

    def _next(self) -> None:
        self._last = None
        try:
            runner, event = self._events.get(timeout=POLL)
        except Empty:
            self._race = self._races.current(self._race)
            return
        if isinstance(event, Report):
            self._see(runner, event)
        else:
            self._leave_out(runner, event)

    def _see(self, runner: Runner, report: Report) -> None:
        is_left = runner.key in self._left
        is_start = is_left and any(state.state == "RUNNING" for state in report.states)
        choose = self._races.choose
        self._race = choose(self._race, runner.key) if is_start else self._races.current(self._race)
        self._last = report
        if report.ended and not self._race.chosen and is_left:
            self._left.pop(runner.key).rest()
            save_final_states([report])
            self._say(f"{runner.name} is {report.state} without having run the program")

    def _leave_out(self, runner: Runner, error: Exception) -> None:
        """Go on without a site; an error that concerns all sites ends the command."""
        if not isinstance(error, RemoteError | RequestError | TwinError):
            raise error
        self._say(f"without {runner.route.site}: {error}")
        self._left.pop(runner.key, None)
        self._errors[runner.key] = error
        self._race = self._races.current(self._race)

    def _is_opened(self, runner: Runner) -> bool:
        """Open the gate of the chosen job, or close it if the job has ended; whether it is open.

        It is tried until the site replies: while that is not known, no other job may be chosen.
        """
        runner.rest()
        report = self._last if self._last and self._last.job == runner.job else None
        for pause in pauses():
            report = report or runner.report()
            is_open = _set_gate(runner, report) if report else None
            if is_open is not None:
                return is_open
            report = None
            time.sleep(pause)
        raise AssertionError  # the pauses do not end

    def _take_back(self, runner: Runner) -> None:
        """Take the choice of a job back, whose gate is closed."""
        self._say(f"{runner.name} has ended before its gate was opened, and is out of the race")
        self._left.pop(runner.key, None)
        self._race, self._last = self._races.take_back(self._race), None


def _set_gate(runner: Runner, report: Report) -> bool | None:
    """Whether the gate of a job in that state is open now; None if its site does not reply."""
    folder = runner.record.folder
    if report.ended:
        closed = runner.tried(lambda transport: close_gate(transport, folder))
        return None if closed is None else not closed
    return runner.tried(lambda transport: open_gate(transport, folder))


class Loser(Struct, frozen=True, kw_only=True):
    """A job that does not run the program."""

    site: str
    id: str
    "Empty if it is not known whether there is a job."
    cancelled: bool
    "Whether it has ended, or Slurm was asked to cancel it."


def cancel_losers(
    race: Race, winner: Runner, runners: Sequence[Runner], connect: Connect, say: Say
) -> tuple[Loser, ...]:
    """Cancel the other jobs, including unconfirmed ones."""
    others = [runner for runner in runners if runner is not winner]
    for runner in others:
        runner.stop()
    # What is still being sent may become a job at any time: it is given up by its key.
    at_rest = {runner.key: runner.rest() for runner in others}
    with_job = [runner for runner in others if runner.has_job and at_rest[runner.key]]
    losers = [_stopped(runner, say) for runner in with_job]
    races = Races()
    _record(races, race, (winner, *with_job))
    entries = {entry.key: entry for entry in races.entries(race)}
    unknown = [runner for runner in others if runner not in with_job and runner.key in entries]
    given_up = [_given_up(races, entries[runner.key], runner, connect, say) for runner in unknown]
    return (*losers, *filter(None, given_up))


def _record(races: Races, race: Race, runners: Sequence[Runner]) -> None:
    """Record the jobs that could not be recorded when they were submitted, including the winner."""
    pending = [entry.key for entry in races.entries(race) if entry.pending]
    races.settle_all([runner.record for runner in runners if runner.key in pending])


def _stopped(runner: Runner, say: Say) -> Loser:
    id_, site = runner.record.id, runner.record.site
    reports = _cancel(runner, say) or _cancel(runner, say)
    if reports is None:
        say(
            f"{runner.name} was not cancelled: once it starts, it ends after {GATE_SECONDS // 60} minutes "
            f"without running the program; `slurmgen cancel {id_} --site {site}` cancels it"
        )
    save_final_states(reports or [])
    return Loser(site=site, id=id_, cancelled=reports is not None)


def _cancel(runner: Runner, say: Say) -> list[Report] | None:
    return runner.tried(lambda transport: cancel_jobs(transport, [runner.job], say))


def _given_up(races: Races, entry: Record, runner: Runner, connect: Connect, say: Say) -> Loser | None:
    """Close the key of an entry, or cancel the job that it has; None if there is no job."""
    route = runner.route
    try:
        with connect(route) as transport:
            if record := settle(transport, entry, races):
                cancel_jobs(transport, [Job.of(record, route)], say)
    except SlurmgenError as error:
        say(
            f"there may be a job at {route.site}, which would not run the program: {error.fact}; "
            f"`slurmgen forget {entry.key} --cancel` cancels it"
        )
        return Loser(site=route.site, id="", cancelled=False)
    if record is None:
        say(f"nothing was submitted at {route.site}")
        return None
    return Loser(site=route.site, id=record.id, cancelled=True)


@contextmanager
def run(
    race: Race,
    runners: Sequence[Runner],
    connect: Connect,
    say: Say,
    announce: Callable[[Runner, Sequence[Loser]], None],
) -> Iterator[Runner]:
    """Run a race to its end; the connection to the winner stays open within the block.

    Args:
        say: receives what happens, line by line; several threads call it.
        announce: is called with the result before the race is over: what it prints is not lost.

    Raises:
        CommandFailed: no site took the job, no job ran the program, or another command cancelled the race.
        Unresolved: no site is known to have taken the job.
        Interrupted: ^C came before a job was chosen.
    """
    with ExitStack() as stack:
        for runner in runners:
            stack.callback(runner.end)
        try:
            winner = Contest(race, runners, say).winner()
        except KeyboardInterrupt:
            sites = [runner.route.site for runner in runners if runner.has_job]
            when = f"while jobs wait at {listed(sites)}" if sites else "before a job waited"
            raise Interrupted(f"interrupted {when}", hint(race)) from None
        say(f"{winner.name} runs the program")
        announce(winner, cancel_losers(race, winner, runners, connect, say))
        Races().finish(race)
        yield winner
