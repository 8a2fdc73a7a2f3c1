"""Giving up a submission: the remote host finds its job, or closes its key so that it never gets one."""

from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed, ConnectionFailed, Unresolved
from slurmgen.jobs import remote_scripts
from slurmgen.jobs.exactly_once import TIMEOUTS, Submitted, Timeouts, log_prefix, submitted
from slurmgen.jobs.ledger import Record
from slurmgen.remote.transport import Transport


def close(transport: Transport, record: Record, timeouts: Timeouts = TIMEOUTS) -> Submitted | None:
    """The job of a submission; None if there is none, and it is certain that there never will be.

    Raises:
        Unresolved: neither is certain; nothing was changed.
    """
    try:
        args = _args(record, timeouts)
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


def _args(record: Record, timeouts: Timeouts) -> list[str]:
    """The arguments of submit.sh, of which closing needs no content."""
    folder = PurePosixPath(record.folder)
    parent = record.folder.removesuffix(f"/runs/{folder.name}")
    return [
        *(parent, folder.name, record.key, record.snapshot, "-", "0"),
        *("", "", ""),
        *(str(PurePosixPath(record.output).parent), log_prefix(record.output, record.name)),
        *("", record.cluster),
        *(str(timeouts.sbatch), str(timeouts.grace)),
    ]
