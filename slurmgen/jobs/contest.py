"""Contest: chooses the job of a race that starts first, and opens its gate; see `slurmgen.jobs.race`.

The threads of the sites only submit and query. All decisions are made here, in one thread.
"""

import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from slurmgen.errors import CommandFailed, RemoteError, RequestError, SlurmgenError, TwinError
from slurmgen.jobs.gate import close_gate, open_gate
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.runner import Event, Runner, Say, pauses
from slurmgen.jobs.status import save_final_states
from slurmgen.text import counted

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
        """Wait for the next event, and read the ledger."""
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
        """Choose a job that runs; leave out one that has ended."""
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
        """Go on without a site; other errors than those of a site end the command."""
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
