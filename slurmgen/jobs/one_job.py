"""Making the job of one entry that was claimed in the ledger."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct, json, structs

from slurmgen.errors import CommandFailed, SlurmgenError, TransferFailed
from slurmgen.jobs import exactly_once
from slurmgen.jobs.closing import close
from slurmgen.jobs.dependencies import Dependency, NeverMet, as_option, needed
from slurmgen.jobs.exactly_once import Count, Submitted
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.new_entry import new_key, now
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.recorded_request import with_after
from slurmgen.jobs.submission_errors import Closed, Refused
from slurmgen.remote.transport import Transport

Sending = Callable[[], AbstractContextManager[Count | None]]
"Returns a context of the transfer, which may yield a function for the bytes of each part."


class Outcome(Struct, frozen=True):
    """A job that Slurm accepted, and the connection to it, which is open."""

    record: Record
    submitted: Submitted
    transport: Transport
    waits: tuple[Dependency, ...] = ()
    "The jobs that it still waits for."


def make_job(
    transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger, sending: Sending
) -> Outcome:
    """Make the job of an entry that was claimed, or find the one that an earlier try made.

    Raises:
        NeverMet: a job that it depends on has failed, and no earlier try made one.
        RemoteError: as `exactly_once.submit` says. The entry stays while there may be a job.
    """
    try:
        waits = _waits(transport, prepared, entry, ledger)
    except NeverMet as error:
        waits, submitted = (), _earlier(transport, entry, ledger, error)
    else:
        with sending() as count:
            entry, submitted = _send(transport, _after(prepared, waits), entry, ledger, count)
    return Outcome(_settled(prepared, entry, submitted), submitted, transport, waits)


def _waits(transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger) -> tuple[Dependency, ...]:
    """The jobs that this one still waits for; if Slurm does not reply, the entry is released."""
    try:
        return needed(transport, prepared.after)
    except NeverMet:
        raise
    except (SlurmgenError, KeyboardInterrupt):
        ledger.release(entry.key)
        raise


def _earlier(transport: Transport, entry: Record, ledger: Ledger, error: NeverMet) -> Submitted:
    """The job that an earlier try made, if there is one; otherwise there will be none.

    Raises:
        NeverMet: there is none.
    """
    submitted = close(transport, entry)
    if submitted is None:
        ledger.drop(entry.key)
        raise error
    return submitted


def _after(prepared: Prepared, waits: Sequence[Dependency]) -> Prepared:
    """The same job, which Slurm starts after these."""
    waiting = structs.replace(prepared.submission, dependency=as_option(waits))
    return structs.replace(prepared, submission=waiting)


def _send(
    transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger, count: Count | None
) -> tuple[Record, Submitted]:
    """Make the job of an entry that was claimed, or of a new entry if the key of that one is closed."""
    text = json.encode(structs.replace(prepared.record, key=entry.key)).decode() + "\n"
    keyed = structs.replace(prepared.submission, key=entry.key, record=text)
    try:
        return entry, exactly_once.submit(transport, keyed, prepared.sent, count=count, parcel=prepared.first)
    except Closed:  # by another terminal, or by this submission if the reply was lost
        ledger.drop(entry.key)
        if prepared.one_key:
            raise
        entry = ledger.claim(structs.replace(prepared.record, key=new_key()))
        check_site(prepared, entry)
        return _send(transport, prepared, entry, ledger, count)
    except Refused as error:
        ledger.drop(entry.key)
        raise advised(error, prepared) from error
    except TransferFailed:
        ledger.release(entry.key)
        raise


def check_site(prepared: Prepared, entry: Record) -> None:
    """Refuse to send a submission to a site that its entry is not for."""
    route = prepared.route
    if (entry.site, entry.via) != (route.site, route.via):
        raise CommandFailed(
            f"another process submits the same job to {entry.site}, and not to {route.site}",
            "Repeat the command, which continues there.",
        )


def advised(error: CommandFailed, prepared: Prepared) -> Refused:
    """A refusal, with what to do about it for this job at this site."""
    advice = (text for part, text in prepared.refusals.items() if part in error.fact)
    return Refused(error.fact, next(advice, error.hint))


def _settled(prepared: Prepared, entry: Record, submitted: Submitted) -> Record:
    """The entry with its job, which may run what an earlier submission sent."""
    is_current = submitted.snapshot == prepared.submission.content.hash
    source = prepared.record if is_current else entry
    return structs.replace(
        entry,
        id=submitted.job.number,
        cluster=submitted.job.cluster,
        folder=submitted.folder,
        state="submitted",
        submitted=entry.submitted if submitted.earlier else now(),
        snapshot=submitted.snapshot,
        commit=source.commit,
        dirty=source.dirty,
        request=with_after(entry.request, prepared.after),
    )
