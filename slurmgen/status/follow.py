"""Following a log over a connection that may break: log in again, and continue at the byte reached."""

import time
from collections.abc import Callable, Sequence

from slurmgen.errors import AuthenticationFailed, ConnectionBroke, ConnectionFailed, RemoteError
from slurmgen.remote.transport import TimedOut, Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import Result
from slurmgen.status.logs import Followed, follow_all
from slurmgen.status.slurm import Busy

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
ATTEMPTS = 4
PATIENCE = 600.0
"Seconds without any reply after which following stops with an error."


class Outage:
    """The time since the remote host last replied."""

    def __init__(
        self,
        steps: Callable[[], int],
        report: Callable[[str], None],
        resume_command: Callable[[], str],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._replies = steps
        self._report = report
        self._resume_command = resume_command
        self._clock = clock
        self._sleep = sleep
        self._steps = -1

    def wait(self, error: RemoteError) -> None:
        """Report the error and wait before the next attempt, longer each time.

        Raises:
            RemoteError: the outage has lasted too long; the same error, with the command that resumes.
        """
        if (steps := self._replies()) != self._steps:  # the host has replied since
            self._steps, self._since, self._pause = steps, self._clock(), FIRST_PAUSE
        if self._clock() - self._since > PATIENCE:
            raise type(error)(
                f"{error.fact}, and the host has not replied for {PATIENCE / 60:g} minutes", self._resume()
            ) from error
        self._report(f"{error.fact}; trying again in {self._pause:g} s")
        self._sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def reconnect(self, reconnect: Callable[[], Transport]) -> Transport:
        """A new connection to the host.

        Raises:
            AuthenticationFailed: the login needs the user, who is not prompted again and again.
        """
        while True:
            try:
                return reconnect()
            except AuthenticationFailed as error:
                raise AuthenticationFailed(
                    f"the connection broke, and a new login needs you: {error.fact}", self._resume()
                ) from error
            except ConnectionFailed as error:
                self.wait(error)

    def _resume(self) -> str:
        return f"To continue where it stopped: {self._resume_command()}"


def begun(
    connect: Callable[[], Transport],
    look: Callable[[Transport], Result],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Transport, Result]:
    """Connect, and look at what is to be followed: over another connection if the first ones break.

    Raises:
        SlurmgenError: what `connect` and `look` raise, ConnectionBroke only at the last attempt.
    """
    for attempt in range(ATTEMPTS):
        transport = connect()
        try:
            return transport, look(transport)
        except ConnectionBroke:
            transport.close()
            if attempt == ATTEMPTS - 1:
                raise
            sleep(FIRST_PAUSE * 2**attempt)
        except BaseException:
            transport.close()
            raise
    raise AssertionError  # pragma: no cover


def follow_through(
    transport: Transport,
    reconnect: Callable[[], Transport],
    logs: Sequence[Followed],
    report: Callable[[str], None],
    resume_command: Callable[[], str],
    *,
    on_interrupt: Callable[[Transport], None] = lambda _transport: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[dict[JobId, tuple[JobState, ...]], Transport]:
    """Show logs until their jobs end, even if the connection breaks.

    Returns how the jobs ended, and the connection that is open then. The caller closes it.

    Args:
        reconnect: connects again, without a prompt.
        logs: the logs, each shown from the byte that it has reached.
        report: is called with each problem meanwhile.
        resume_command: the command line that continues from here.
        on_interrupt: is called with the open connection after ^C.

    Raises:
        ConnectionFailed, TimedOut: the host did not reply for ten minutes.
        AuthenticationFailed: the connection broke, and a new login needs the user.
        HostKeyError, CommandFailed: as for any command.
    """
    outage = Outage(lambda: sum(one.shown.steps for one in logs), report, resume_command, clock, sleep)
    try:
        while True:
            try:
                return follow_all(transport, logs, sleep), transport
            except (TimedOut, Busy) as error:  # the connection is there, so the login is still valid
                outage.wait(error)
            except ConnectionFailed as error:
                transport.close()
                outage.wait(error)
                transport = outage.reconnect(reconnect)
    except KeyboardInterrupt:
        with transport:
            on_interrupt(transport)
        raise
    except BaseException:
        transport.close()
        raise
