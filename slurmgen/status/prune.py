"""What slurmgen keeps at a site: snapshots, run folders, and the environments that runs share."""

import re
from typing import Literal

from msgspec import Struct

from slurmgen import remote_scripts
from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import Transport

_KINDS = {"run", "snapshot", "env"}
_STATES = {"kept", "free", "removed", "removable", "unfetched"}
Task = Literal["KEEP", "TRY", "PRUNE", "ALL"]
TIMEOUT = 600.0
"Seconds; adding up sizes and removing files can take minutes."


class Kept(Struct, frozen=True):
    """One snapshot, run or shared Python environment."""

    kind: str
    "`snapshot`, `run` or `env`."
    project: str
    name: str
    size: int
    "Bytes on disk."
    used: int
    "When it was last used, in seconds since 1970."
    state: str
    """`kept`: a job needs it, or may need it; `free`: no job does; `removed`: just now; `removable`: it would
    be; `unfetched`: a run that would be, but has results that were never fetched."""
    detail: str


def kept(
    transport: Transport, folder: str, task: Task = "KEEP", days: float = 0
) -> tuple[str, tuple[Kept, ...]]:
    """The error of squeue, or an empty text, and all that is kept in a remote folder.

    Args:
        folder: the result of `remote_folder`.
        task: `PRUNE` removes ended runs, snapshots that no job still runs, and environments that neither
            links to; `ALL` also runs with results that were never fetched; `TRY` removes nothing.
        days: prune only what was not used for this long.

    Raises:
        CommandFailed: the remote host sent no valid reply.
    """
    args = [folder, task, str(int(days * 86400))]
    complaint, *cells = remote_scripts.run(transport, "prune", args, timeout=TIMEOUT)
    try:
        return complaint, tuple(_kept(cells[at : at + 7]) for at in range(0, len(cells), 7))
    except ValueError:
        raise CommandFailed(f"the list from {transport.where} cannot be read", "Try again.") from None


def _kept(row: list[str]) -> Kept:
    kind, project, name, kilobytes, used, state, detail = row
    numbers = re.fullmatch("[0-9]{1,15} [0-9]{1,11}", f"{kilobytes} {used}")
    if kind not in _KINDS or state not in _STATES or not numbers:
        raise ValueError(row)
    return Kept(kind, project, name, int(kilobytes) << 10, int(used), state, detail)
