"""The input of the checks, and what they have found so far."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmgen.errors import CommandFailed, SlurmgenError
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport

if TYPE_CHECKING:
    from slurmgen.plan import Plan
    from slurmgen.remote.route import Route
    from slurmgen.remote.ssh.config import Destination


class NotChecked(Exception):
    """There is nothing to check, or it cannot be checked."""


class Doubtful(SlurmgenError):
    """The check passes with a warning."""


@dataclass
class Visit:
    """The request, the route to the site, and the results that later checks need."""

    route: "Route"
    open: Callable[[], Transport]
    plan: Callable[[], "tuple[Plan, str]"]
    "Resolves the request; returns the plan and its script."
    prepare: Callable[["Plan", str], str]
    "Prepares the project as a submission does; returns what would be sent."
    remote_dir: str
    project: str
    "The name of the project's folder."
    planned: "tuple[Plan, str] | None" = None
    to: "Destination | None" = None
    connection: Transport | None = None
    error: SlurmgenError | None = None
    "Why there is no connection."

    @property
    def transport(self) -> Transport:
        """The connection; only for checks that need the login."""
        assert self.connection  # noqa: S101 (the check `login` passed)
        return self.connection

    def close(self) -> None:
        """End the connection, if there is one."""
        if self.connection:
            with suppress(SlurmgenError):
                self.connection.close()


def output_of(visit: Visit, script: str) -> str:
    """What a script prints, run by the user's login shell.

    Raises:
        CommandFailed: it failed, with the last line of its errors.
    """
    completed = run(visit, script)
    if completed.returncode:
        raise CommandFailed(last_line(completed))
    return completed.out.strip()


def run(visit: Visit, script: str, *words: str) -> Completed:
    """Run a script in the user's login shell."""
    argv: Sequence[str] = [*visit.transport.shell, script, "slurmgen", *words]
    return visit.transport.run(argv, timeout=COMMAND_TIMEOUT)


def last_line(completed: Completed) -> str:
    """The last line of the errors of a script."""
    lines = [line.strip() for line in completed.err.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit status {completed.returncode}"
