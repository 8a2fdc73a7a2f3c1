"""Following a log over a link that breaks: a new login, and on from the byte where it stopped."""

import time
from collections.abc import Callable

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, RemoteError
from slurmgen.jobs.logs import Shown, follow
from slurmgen.remote.transport import TimedOut, Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PATIENCE = 600.0
"Seconds without any answer after which it is given up."


class Outage:
    """The time since the far side last answered."""

    def __init__(
        self,
        shown: Shown,
        tell: Callable[[str], None],
        go_on: Callable[[], str],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._shown = shown
        self._tell = tell
        self._go_on = go_on
        self._clock = clock
        self._sleep = sleep
        self._steps = -1

    def lasts(self, error: RemoteError) -> None:
        """Tell what is wrong and wait a while, longer each time.

        Raises:
            RemoteError: it has lasted too long; the same error, with the command to go on.
        """
        if self._shown.steps != self._steps:  # there was an answer since
            self._steps, self._since, self._pause = self._shown.steps, self._clock(), FIRST_PAUSE
        if self._clock() - self._since > PATIENCE:
            raise type(error)(
                f"{error.fact}, and no answer has come for {PATIENCE / 60:g} minutes",
                f"To go on where it stopped: {self._go_on()}",
            ) from error
        self._tell(f"{error.fact}; trying again in {self._pause:g} s")
        self._sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def reopened(self, reopen: Callable[[], Transport]) -> Transport:
        """A new way to the host.

        Raises:
            AuthenticationFailed: only a person could log in; nobody is asked again and again.
        """
        while True:
            try:
                return reopen()
            except AuthenticationFailed as error:
                raise AuthenticationFailed(
                    f"the link broke, and a new login needs you: {error.fact}",
                    f"To go on where it stopped: {self._go_on()}",
                ) from error
            except ConnectionFailed as error:
                self.lasts(error)


def follow_through(
    far: Transport,
    reopen: Callable[[], Transport],
    job: JobId,
    path: str,
    shown: Shown,
    tell: Callable[[str], None],
    go_on: Callable[[], str],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[JobState, ...]:
    """Show a log to the job's end, whatever becomes of the link; returns how the job ended.

    Args:
        far: where the job is; it is closed at the end.
        reopen: goes there anew, asking nobody for anything.
        job: the job.
        path: its log.
        shown: shows it, from the byte on that it has come to.
        tell: is told what is wrong meanwhile.
        go_on: the command line that goes on from here.
        clock: seconds.
        sleep: waits for some.

    Raises:
        ConnectionFailed, TimedOut: no answer came for ten minutes.
        AuthenticationFailed: the link broke, and only a person could log in again.
        HostKeyError, CommandFailed: as they say.
    """
    outage = Outage(shown, tell, go_on, clock, sleep)
    try:
        while True:
            try:
                return follow(far, job, path, shown, sleep)
            except TimedOut as error:  # the link is there, so that the login still holds
                outage.lasts(error)
            except ConnectionFailed as error:
                far.close()
                outage.lasts(error)
                far = outage.reopened(reopen)
    finally:
        far.close()
