"""What is kept at a site: snapshots, the folders that jobs run or ran in, and the environments they share."""

import re

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.jobs import remote_scripts
from slurmgen.remote.transport import Transport

_KINDS, _STATES = {"run", "snapshot", "env"}, {"kept", "free", "removed"}
TIMEOUT = 600.0
"Seconds; the sizes of many files are added up, and many may be removed."


class Kept(Struct, frozen=True):
    """One snapshot, run or shared Python environment."""

    kind: str
    "`snapshot`, `run` or `env`."
    project: str
    name: str
    size: int
    "Bytes on disk."
    used: int
    "When last, in seconds since 1970."
    state: str
    "`kept`: a job needs it, or may; `free`: none does; `removed`: just now."
    detail: str


def kept(
    far: Transport, folder: str, *, prune: bool = False, days: float = 0
) -> tuple[str, tuple[Kept, ...]]:
    """What Slurm complained of, if so, and all that is kept in a remote folder.

    Args:
        far: where.
        folder: as `remote_folder` gives it.
        prune: remove ended runs, snapshots that no job still runs, and environments that neither links to.
        days: but only what was not used for so long.

    Raises:
        CommandFailed: the far side did not answer.
    """
    task = ("PRUNE" if prune else "KEEP", str(int(days * 86400)))
    complaint, *cells = remote_scripts.ask(far, "snapshots", [folder, *task], timeout=TIMEOUT)
    try:
        return complaint, tuple(_kept(cells[at : at + 7]) for at in range(0, len(cells), 7))
    except ValueError:
        raise CommandFailed(f"the list from {far.where} cannot be read", "Try again.") from None


def _kept(row: list[str]) -> Kept:
    kind, project, name, kilobytes, used, state, detail = row
    numbers = re.fullmatch("[0-9]{1,15} [0-9]{1,11}", f"{kilobytes} {used}")
    if kind not in _KINDS or state not in _STATES or not numbers:
        raise ValueError(row)
    return Kept(kind, project, name, int(kilobytes) << 10, int(used), state, detail)
