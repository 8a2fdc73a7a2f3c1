"""Opens or closes the gate that the script of a job waits for; what is done first counts for good."""

from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed
from slurmgen.plan.gate import CLOSED, FILE, OPEN
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport

# Making a link is atomic, and fails if there is one: of slurmgen and the script, only one decides.
_SET = 'ln -sT -- "$2" "$1" 2>/dev/null; readlink -- "$1"'


def open_gate(transport: Transport, folder: str) -> bool:
    """Open the gate of the job in a run folder; False if it is closed.

    Raises:
        CommandFailed: it could be neither opened nor closed.
        ConnectionFailed, TimedOut: it is not known whether it is open.
    """
    return _set(transport, folder, OPEN) == OPEN


def close_gate(transport: Transport, folder: str) -> bool:
    """Close the gate of the job in a run folder, so that it never runs its program; False if it is open.

    Raises:
        As `open_gate`.
    """
    return _set(transport, folder, CLOSED) == CLOSED


def _set(transport: Transport, folder: str, word: str) -> str:
    run = PurePosixPath(folder)  # it may be removed; the records stay
    gate = run.parent.parent / "submissions" / run.name / FILE
    reply = transport.run(["sh", "-c", _SET, "slurmgen", str(gate), word], timeout=COMMAND_TIMEOUT)
    found = reply.out.strip()
    if reply.returncode or found not in (OPEN, CLOSED):
        raise CommandFailed(
            f"the gate of the job in {folder} on {transport.where} cannot be set: "
            f"{reply.err.strip() or 'no link could be made'}",
            "Check the free space and the permissions of that folder.",
        )
    return found
