"""The job that is submitted again: how it is found, what it asked for, and the script that it ran."""

from difflib import unified_diff

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.jobs import lookup
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.logs import read
from slurmgen.jobs.lookup import LAST, Options, SiteRoute
from slurmgen.jobs.recorded_request import Recorded, kept_of, resubmits, script_file, spec_again, spec_at
from slurmgen.remote.transport import Transport
from slurmgen.request import Request

_LARGEST = 1 << 20
"Bytes of a script."


class Original(Struct, frozen=True):
    """The job that is submitted again."""

    job: Job
    record: Record
    kept: Recorded


def find_original(name: str, site: str | None, options: Options, site_route: SiteRoute) -> Original:
    """Find the job that is submitted again.

    Args:
        name: an id, a name, of which the last submitted counts, or `last`. An unsettled resubmission is
            not counted: the repeated command finds it by its original.
        site: where the new job goes; of an id that is at several sites, the job there counts.
        options: the route of the new job; at the same site, they replace what the ledger knows.
        site_route: the route to a site, see `find_job`.

    Raises:
        RequestError: there is no such job, it is a task of an array, or no request is recorded.
    """
    unsettled = _original_of_unsettled(name)
    name = unsettled.id if unsettled else name
    at = unsettled.site if unsettled else site if site and Ledger().find(name, site) else None
    job = lookup.find_job(name, at, {}, site_route)
    if site in (None, job.route.site):
        job = lookup.find_job(name, at, options, site_route)
    if job.record is None:
        raise RequestError(
            f"job {name} is not in your records", "Only a job of this machine can be repeated."
        )
    if job.id.number != job.record.id:
        raise RequestError(f"{name} is one task of job {job.record.id}", f"Name the job: {job.record.id}.")
    return Original(job, job.record, kept_of(job.record))


def _original_of_unsettled(name: str) -> Record | None:
    """The original, if the last job of that name is an unsettled resubmission."""
    entry = Ledger().last(None if name == LAST else name)
    original = None
    while entry and entry.pending and (key := resubmits(entry)):
        entry = original = Ledger().of_key(key)
    return original


def again(original: Original, changes: Request, site: str | None = None) -> JobSpec:
    """The job as it was asked for, with changes; at another site, by the present slurmgen.toml.

    Raises:
        RequestError: the value of a secret is missing, or the job does not exist any more.
        ConfigError: slurmgen.toml, personal.toml or a profile is wrong.
    """
    if site in (None, original.kept.site):
        return spec_again(original.kept, changes)
    return spec_at(original.kept, str(site), changes)


def original_script(transport: Transport, original: Original) -> str:
    """The batch script that the original ran; empty if its run folder is gone.

    Raises:
        CommandFailed: it cannot be read.
    """
    path = f"{original.record.folder}/{script_file(original.record)}"
    return text_of(transport, path).decode(errors="surrogateescape")


def text_of(transport: Transport, path: str) -> bytes:
    """The text of a script; empty if there is none, or if it is too long for one.

    Raises:
        CommandFailed: it cannot be read.
    """
    text = b""
    for part in read(transport, path):
        text += part
        if len(text) > _LARGEST:
            return b""
    return text


def script_diff(before: str, after: str) -> str:
    """The changes of the script as a unified diff; empty if there are none."""
    lines = unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "original", "resubmitted"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
