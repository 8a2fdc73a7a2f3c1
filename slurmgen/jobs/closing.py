"""Giving up a submission: the remote host finds its job, or closes its key so that it never gets one."""

from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import CommandFailed, ConnectionFailed, Unresolved
from slurmgen.jobs import remote_scripts
from slurmgen.jobs.exactly_once import TIMEOUTS, Submitted, Timeouts, log_prefix, submitted
from slurmgen.remote.transport import Transport


class Entry(Struct, frozen=True, kw_only=True):
    """What the ledger records of a submission whose outcome is unknown."""

    key: str
    name: str
    "Name of the job."
    folder: str
    "PARENT/runs/NAME-KEY on the remote host."
    output: str
    "Slurm's pattern for the name of the log, such as %x-%j.out."
    clusters: str = ""
    snapshot: str = ""
    "The hash of the snapshot that it would run."


def close(transport: Transport, entry: Entry, timeouts: Timeouts = TIMEOUTS) -> Submitted | None:
    """The job of a submission; None if there is none, and it is certain that there never will be.

    Raises:
        Unresolved: neither is certain; nothing was changed.
    """
    try:
        args = _args(entry, timeouts)
        outcome, *texts = remote_scripts.run(transport, "close", args, timeout=timeouts.reply) + [""] * 5
        if outcome == "submitted":
            return submitted(transport, texts)
    except (CommandFailed, ConnectionFailed) as error:
        raise Unresolved(f"whether there is a job is not known: {error.fact}", error.hint) from error
    if outcome != "closed":
        raise Unresolved(
            f"whether there is a job is not known: {' '.join(texts[0].split())}", "Try again later."
        )
    return None


def _args(entry: Entry, timeouts: Timeouts) -> list[str]:
    """The arguments of submit.sh, of which closing needs no content."""
    folder = PurePosixPath(entry.folder)
    parent = entry.folder.removesuffix(f"/runs/{folder.name}")
    return [
        *(parent, folder.name, entry.key, entry.snapshot, "-", "0"),
        *("", "", ""),
        *(str(PurePosixPath(entry.output).parent), log_prefix(entry.output, entry.name)),
        *("", entry.clusters),
        *(str(timeouts.sbatch), str(timeouts.grace)),
    ]
