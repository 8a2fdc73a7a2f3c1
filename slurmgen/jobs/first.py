"""Submit a job to the one of several sites where it would start first.

The sites cannot talk to each other, so that this machine decides, and once: the entry of the ledger names the
chosen site before anything is sent, and all candidates of one command share a fingerprint. A repeated
command finds that entry and continues at its site, whatever the estimates are by then. An entry is only given
up when it is certain that it has no job, so that no fault can make a second one.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.one_job import check_site
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.recorded_request import recorded, recorded_request
from slurmgen.jobs.where import Option


class Choice(Struct, frozen=True):
    """The site that a job goes to."""

    site: str
    partition: str | None
    why: str


def fingerprint(jobs: Sequence[JobSpec], places: Sequence[str] = ()) -> str:
    """A hash of the command: the same for the same job and the same sites, in any order.

    Args:
        jobs: the job at each site.
        places: the route to each site, and the remote folder there, which a key must not leave.

    Raises:
        RequestError: a value is not valid UTF-8.
    """
    texts = sorted(recorded(job) for job in jobs)
    if not all(texts):
        raise RequestError(
            "a value of the request is not valid UTF-8", "Submit with --site instead of --first."
        )
    return sha256("\0".join(("first", *texts, *sorted(places))).encode()).hexdigest()


def earlier(command: str) -> Choice | None:
    """The choice of an unsettled submission of the same command; None if there is none.

    Raises:
        ConfigError: the ledger cannot be used.
    """
    entry = Ledger().pending(command)
    return _of_entry(entry) if entry else None


def _of_entry(entry: Record) -> Choice:
    partition = recorded_request(entry).request.partition
    return Choice(entry.site, partition, f"an unsettled submission of {entry.submitted} chose it")


def best(options: Sequence[Option]) -> Choice:
    """The choice among options that are in order of their estimated start.

    Raises:
        CommandFailed: no site could run the job, or none was reached.
    """
    found = next((option for option in options if option.can_run), None)
    if found is None:
        reasons = "; ".join(f"{one.site}: {one.refused or one.error}" for one in options)
        raise CommandFailed(f"no site could run the job: {reasons}", "`slurmgen where` compares them.")
    when = "at a time that is not known" if found.wait is None else f"in {found.wait} seconds"
    return Choice(found.site, found.partition or None, f"it would start first there, {when} (an estimate)")


def claim(prepared: Prepared, command: str, *, again: bool = False) -> tuple[Prepared, Record]:
    """Choose the site of a prepared submission for good; the submission and its entry.

    Raises:
        CommandFailed: another process chose another site for the same command at this moment.
    """
    prepared = structs.replace(prepared, record=structs.replace(prepared.record, fingerprint=command))
    entry = Ledger().claim(prepared.record, again=again)
    check_site(prepared, entry)
    return prepared, entry
