"""The jobs of the ledger by their addresses. What a browser sends is only compared with what is recorded."""

from urllib.parse import quote

from starlette.exceptions import HTTPException

from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.lookup import recorded_route


def key_of(record: Record) -> str:
    """What names a job in an address: its idempotency key; of an old entry without one, its site and id."""
    return record.key or f"{record.site}:{record.id}"


def path_of(key: str) -> str:
    """The path of the page of a job, below the base path."""
    return f"/jobs/{quote(key, safe='')}"


def record_of(key: str) -> Record:
    """The entry of the ledger that an address names.

    Raises:
        HTTPException: there is none.
    """
    site, _, number = key.rpartition(":")
    found = Ledger().find(number, site) if site else [Ledger().of_key(key)]
    record = next(iter(found), None)
    if record is None:
        raise HTTPException(404, "Your records have no such job.")
    return record


def job_of(record: Record) -> Job:
    """The job of an entry, with the route that is recorded."""
    return Job.of(record, recorded_route(record, {}))


def record_of_job(job: Job) -> Record:
    """The entry of a job that `job_of` made."""
    assert job.record is not None  # noqa: S101
    return job.record
