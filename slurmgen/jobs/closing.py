"""Giving up a submission: the remote host finds its job, or closes its key so that none comes."""

from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import CommandFailed, ConnectionFailed, Unresolved
from slurmgen.jobs import remote_scripts
from slurmgen.jobs.exactly_once import WAITS, Submitted, Waits, log_prefix, submitted
from slurmgen.remote.transport import Transport


class Entry(Struct, frozen=True, kw_only=True):
    """What the ledger knows of a submission whose outcome is unknown."""

    key: str
    name: str
    "Name of the job."
    folder: str
    "PARENT/runs/NAME-KEY on the remote host."
    output: str
    "The log's name as Slurm has it, with its %j."
    clusters: str = ""
    snapshot: str = ""
    "The hash of what it would run."


def close(far: Transport, entry: Entry, waits: Waits = WAITS) -> Submitted | None:
    """The job of a submission; None if there is none, and it is certain that none comes.

    Raises:
        Unresolved: neither is certain; nothing was changed.
    """
    try:
        outcome, *told = (
            remote_scripts.ask(far, "close", _args(entry, waits), timeout=waits.answer) + [""] * 5
        )
        if outcome == "submitted":
            return submitted(far, told)
    except (CommandFailed, ConnectionFailed) as error:
        raise Unresolved(f"whether there is a job is not known: {error.fact}", error.hint) from error
    if outcome != "closed":
        raise Unresolved(
            f"whether there is a job is not known: {' '.join(told[0].split())}", "Try again later."
        )
    return None


def _args(entry: Entry, waits: Waits) -> list[str]:
    """The arguments of submit.sh, of which closing needs no content."""
    folder = PurePosixPath(entry.folder)
    parent = entry.folder.removesuffix(f"/runs/{folder.name}")
    return [
        *(parent, folder.name, entry.key, entry.snapshot, "-", "0"),
        *("", "", ""),
        *(str(PurePosixPath(entry.output).parent), log_prefix(entry.output, entry.name)),
        *("", entry.clusters),
        *(str(waits.sbatch), str(waits.grace)),
    ]
