"""Give up a submission that may not have become a job."""

from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.transport import Transport
from slurmgen.submit.exactly_once import TIMEOUTS, Timeouts, close


def settle(
    transport: Transport, record: Record, ledger: Ledger, timeouts: Timeouts = TIMEOUTS
) -> Record | None:
    """Record the job of a pending entry; if it has none, close its key, drop the entry and return None.

    Raises:
        Unresolved: neither is certain; nothing was changed.
        ConfigError: the ledger cannot be written.
    """
    submitted = close(transport, record, timeouts)
    if submitted is None:
        ledger.drop(record.key)
        return None
    settled = structs.replace(
        record,
        id=submitted.job.number,
        cluster=submitted.job.cluster,
        folder=submitted.folder,
        snapshot=submitted.snapshot,
        state="submitted",
    )
    ledger.settle(settled)
    return settled
