"""Waiting for jobs to end: politely, with one question at a time for all jobs of a site."""

import time
from collections.abc import Callable, Sequence

from slurmgen.errors import AuthenticationFailed, HostKeyError, RemoteError
from slurmgen.jobs.final_states import FINAL
from slurmgen.jobs.slurm_client import GONE, by_task
from slurmgen.jobs.status import Answer, Named, Reach, answer, answers_of, by_way, unreached
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 60.0
"Seconds between two questions; a controller serves many people."
LOOKS_UNTIL_GONE = 4
"Questions after which a job of ours that nobody knows is believed to be gone."
LOOKS_FOR_USAGE = 2
"Questions for what an ended job used."
LINGER = 0.5
"Seconds until what has ended is asked for once more."


class Watch:
    """The jobs of one site, and the connection over which they are asked for."""

    def __init__(self, way: Route, jobs: Sequence[Named], reach: Reach) -> None:
        self.waiting = list(jobs)
        self._way, self._reach = way, reach
        self._far: Transport | None = None
        self._has_answered = False
        self._looks: dict[Named, int] = {}
        self._seen: dict[Named, Answer] = {}
        "The last answer for each job that Slurm knew, with all its tasks."

    def look(self, tell: Callable[[str], None]) -> list[Answer]:
        """The jobs that have ended since the last look.

        Raises:
            RemoteError: the first look failed. Later ones may: a link breaks, a controller starts anew.
        """
        if not self.waiting:
            return []
        try:
            self._far = self._far or self._reach(self._way)
            answers = answers_of(self._far, self.waiting)
        except (AuthenticationFailed, HostKeyError):
            raise
        except RemoteError as error:
            if not self._has_answered:
                return self._remembered(error)
            tell(f"{error.fact}; waiting on")
            self.close()
            return []
        self._has_answered = True
        answers = [self._with_forgotten(one) for one in answers]
        done = [one for one in answers if self._is_over(one)]
        self.waiting = [one.named for one in answers if one not in done]
        return done

    def _remembered(self, error: RemoteError) -> list[Answer]:
        """How the jobs ended, if that was seen of all of them; else raises the error."""
        if not all(one.final for one in self.waiting):
            raise error
        known, self.waiting = self.waiting, []
        return [unreached(one, error) for one in known]

    @property
    def lingers(self) -> bool:
        """Whether a job has ended of which something may still be told."""
        return any(one in self._looks for one in self.waiting)

    def close(self) -> None:
        """Hang up."""
        if self._far:
            self._far.close()
        self._far = None

    def _with_forgotten(self, one: Answer) -> Answer:
        """An answer with the tasks that had ended before, and that Slurm has forgotten since."""
        before, known = self._seen.get(one.named), {state.id for state in one.states}
        if before:
            forgotten = [state for state in before.states if state.ended and state.id not in known]
            if forgotten:
                states = tuple(sorted((*forgotten, *one.states), key=by_task))
                one = answer(one.named, states, one.report.why or before.report.why)
        if one.states:
            self._seen[one.named] = one
        return one

    def _is_over(self, one: Answer) -> bool:
        """Whether a job has ended, and all is known of it that will be: the database lags behind a little."""
        if not one.report.ended:
            self._looks.pop(one.named, None)
            return False
        looks = self._looks[one.named] = self._looks.get(one.named, 0) + 1
        if one.report.state == GONE:
            return one.named not in self._seen or looks >= LOOKS_UNTIL_GONE
        no_more = all(state.unaccounted and state.state in FINAL for state in one.states)
        is_known = no_more or one.report.remembered or one.report.usage is not None
        return bool(is_known) or looks >= LOOKS_FOR_USAGE


def wait(
    jobs: Sequence[Named],
    reach: Reach,
    tell: Callable[[str], None],
    ended: Callable[[Answer], None],
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[Named]:
    """Wait until jobs have ended; returns those that have not when the time is over.

    Args:
        jobs: which.
        reach: leads to a site.
        tell: is told what goes wrong meanwhile.
        ended: is given each job as it ends.
        timeout: seconds; for ever if None.
        sleep: pauses.
        clock: seconds that only grow.
    """
    watches = [Watch(way, some, reach) for way, some in by_way(jobs).items()]
    deadline, pause = clock() + timeout if timeout is not None else None, FIRST_PAUSE
    try:
        while True:
            done = [one for watch in watches for one in watch.look(tell)]
            for one in done:
                ended(one)
            left = [one for watch in watches for one in watch.waiting]
            if not left or (deadline is not None and clock() >= deadline):
                return left
            if done:
                pause = FIRST_PAUSE
            if any(watch.lingers for watch in watches):
                pause = LINGER
            sleep(pause if deadline is None else max(0.0, min(pause, deadline - clock())))
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        for watch in watches:
            watch.close()
