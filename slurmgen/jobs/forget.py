"""Giving up a submission of which it is not known whether it became a job."""

from msgspec import structs

from slurmgen.jobs.closing import Entry, close
from slurmgen.jobs.exactly_once import TIMEOUTS, Timeouts
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.remote.transport import Transport


def settle(far: Transport, record: Record, ledger: Ledger, timeouts: Timeouts = TIMEOUTS) -> Record | None:
    """Record the job of a pending entry; without a job, close its key, forget the entry and return None.

    Raises:
        Unresolved: neither is certain; nothing was changed.
        ConfigError: the ledger cannot be written.
    """
    entry = Entry(
        key=record.key,
        name=record.name,
        folder=record.folder,
        output=record.output,
        clusters=record.cluster,
        snapshot=record.snapshot,
    )
    done = close(far, entry, timeouts)
    if done is None:
        ledger.drop(record.key)
        return None
    settled = structs.replace(
        record,
        id=done.job.number,
        cluster=done.job.cluster,
        folder=done.folder,
        snapshot=done.snapshot,
        state="submitted",
    )
    ledger.settle(settled)
    return settled
