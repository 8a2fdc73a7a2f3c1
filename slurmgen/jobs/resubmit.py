"""Submit a job again: what it was asked for, with changes, from the same snapshot or the present files.

A resubmission is a submission of its own, with its own idempotency key. Its entry names the key of the
original, and its fingerprint depends on that key: a command that was interrupted finds its job when it is
repeated, and two resubmissions of one job do not become one.

To run only some tasks of a sweep again, find the original with `find_original`, make the job of the failed
tasks by `again(job, changes)` with `changes` that select them (their indices are in `Record.tasks`), and
pass it to `prepare_again` with `note` set to the selection, which then counts as a part of the command.
"""

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.jobs import lookup
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.logs import read
from slurmgen.jobs.lookup import LAST, Options, SiteRoute
from slurmgen.jobs.prepare import Prepared, dependent, prepare, prepare_stored
from slurmgen.jobs.project_content import MAX_SIZE
from slurmgen.jobs.recorded_request import (
    Recorded,
    kept_of,
    resubmits,
    script_file,
    spec_again,
    spec_at,
    with_request,
)
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.request import Request
from slurmgen.slurm.dependencies import NONE, After

_LARGEST = 1 << 20
"Bytes of a script."


class Original(Struct, frozen=True):
    """The job that is submitted again."""

    job: Job
    record: Record
    kept: Recorded


class Again(Struct, frozen=True):
    """A resubmission that is ready to be sent."""

    spec: JobSpec
    prepared: Prepared
    present_files: bool
    "Whether it runs the project as it is now, instead of the snapshot that the original ran."


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


def prepare_again(
    original: Original,
    spec: JobSpec,
    route: Route,
    *,
    present_files: bool,
    remote_dir: str | None = None,
    max_size: int = MAX_SIZE,
    send: Sequence[str] = (),
    after: Sequence[str] = (),
    cache_dir: Path | None = None,
    note: str = "",
) -> Again:
    """Make all that the submission needs. It connects to no host.

    Args:
        original: the job that is submitted again.
        spec: what `again` returned.
        route: how to reach its site.
        present_files: send the project as it is now.
        remote_dir: the remote folder for submissions of present files; default: that of the original.
        max_size: bytes of the project, above which it is refused.
        send: files to send although they may hold secrets or are ignored.
        after: the jobs that must end first, each `[TYPE:]JOB`; default: those that the original waited
            for or, at another site, those of slurmgen.toml.
        cache_dir: a private folder for compiled templates.
        note: what else distinguishes this command from others that resubmit the same job.

    Raises:
        RequestError: the site cannot run the job, or does not have the snapshot of the original.
    """
    plan, key, send = spec.plan(), original.record.key, (*original.kept.send, *send)
    script = spec.render(plan, cache_dir)
    files = "present files" if present_files else original.record.snapshot
    identity = "\0".join((spec.identity(cache_dir) or script, "resubmits", key, files, note))
    if present_files:
        _require_project(original.kept)
        folder = remote_dir or spec.personal.remote_dir
        prepared = prepare(plan, script, route, spec.project_dir, folder, max_size, send, identity)
    else:
        _require_snapshot(original, route)
        prepared = prepare_stored(plan, script, route, spec.project_dir, original.record, identity)
    prepared = with_request(prepared, spec, send, resubmits=key)
    return Again(spec, dependent(prepared, _afters(original, spec, after)), present_files)


def _afters(original: Original, spec: JobSpec, words: Sequence[str]) -> tuple[After, ...]:
    """The jobs that a resubmission waits for."""
    if not words and spec.site.name == original.kept.site:
        words = original.kept.after or (NONE,)
    return spec.after(words)


def _require_project(kept: Recorded) -> None:
    if not Path(kept.project).is_dir():
        raise RequestError(
            f"the project is gone: there is no folder {kept.project}",
            "Leave out --present-files to run the files that the job ran.",
        )


def _require_snapshot(original: Original, route: Route) -> None:
    """Refuse a site that cannot have the files that the job ran."""
    record, there = original.record, original.job.route
    if (route.site, route.via == "twin") != (there.site, there.via == "twin"):
        where = f"the twin of {there.site}" if there.via == "twin" else there.site
        raise RequestError(
            f"the files that job {record.id} ran are at {where}, and not at {route.site}",
            "Add --present-files to send the project as it is now.",
        )
    if not record.snapshot:
        raise RequestError(f"it is not recorded which files job {record.id} ran", "Add --present-files.")


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
