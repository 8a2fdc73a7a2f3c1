"""What the checks know and find out: one visit to one site."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmgen.errors import CommandFailed, SlurmgenError
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport

if TYPE_CHECKING:
    from slurmgen.plan import Plan
    from slurmgen.remote.route import Route
    from slurmgen.remote.ssh.destination import Destination


class NotChecked(Exception):
    """There is nothing to check here, or no way to."""


class Doubtful(SlurmgenError):
    """It works, and there is something that the user should know."""


@dataclass
class Visit:
    """What is asked for, the way there, and what is known of it so far."""

    way: "Route"
    open: Callable[[], Transport]
    plan: Callable[[], "tuple[Plan, str]"]
    "Resolves the request; gives the plan and its script."
    prepare: Callable[["Plan", str], str]
    "Looks at the project as a submission does; says what would be sent."
    remote_dir: str
    project: str
    "The name of the project's folder."
    planned: "tuple[Plan, str] | None" = None
    to: "Destination | None" = None
    transport: Transport | None = None
    trouble: SlurmgenError | None = None
    "Why there is no transport."

    @property
    def far(self) -> Transport:
        """The far side; only checks that need the login ask for it."""
        assert self.transport  # noqa: S101 (the login came first)
        return self.transport

    def close(self) -> None:
        """End the connection, if there is one."""
        if self.transport:
            with suppress(SlurmgenError):
                self.transport.close()


def answer(visit: Visit, script: str, *words: str) -> str:
    """What a script says between two NULs, run by the shell that a person has there.

    Raises:
        CommandFailed: it failed, with its last words; or it was not to be heard.
    """
    completed = said(visit, script, *words)
    parts = completed.stdout.split(b"\0")
    if completed.returncode or len(parts) < 3:
        raise CommandFailed(last_words(completed))
    return parts[-2].decode(errors="replace")


def said(visit: Visit, script: str, *words: str) -> Completed:
    """How a script ended."""
    argv: Sequence[str] = [*visit.far.shell, script, "slurmgen", *words]
    return visit.far.run(argv, timeout=COMMAND_TIMEOUT)


def last_words(completed: Completed) -> str:
    """The last line of its errors."""
    lines = [line.strip() for line in completed.err.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit status {completed.returncode}"
