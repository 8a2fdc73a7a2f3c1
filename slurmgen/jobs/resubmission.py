"""Submit a job again: what it was asked for, with changes, from the same snapshot or the present files.

A resubmission is a submission of its own, with its own idempotency key. Its entry names the key of the
original, and its fingerprint depends on that key: a command that was interrupted finds its job when it is
repeated, and two resubmissions of one job do not become one.

`slurmgen resubmit` and the page make it in the same steps: find the original, choose the route (`route_to`),
prepare the submission (`ready`), and submit its arrays (`submit_arrays`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.jobs.job import Borrow
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.places import Confirm, route_of
from slurmgen.jobs.prepare import Prepared, dependent, prepare, prepare_stored
from slurmgen.jobs.project_content import Upload, parent_of
from slurmgen.jobs.recorded_request import with_request
from slurmgen.jobs.reported_nodes import on_good_nodes
from slurmgen.jobs.resubmit import Original, again
from slurmgen.jobs.room import Room, room_of_plan, room_of_script
from slurmgen.jobs.script_again import prepare_stored_script, script_again
from slurmgen.jobs.submission_errors import SnapshotGone
from slurmgen.jobs.sweep_arrays import arrays_of
from slurmgen.plan import Plan
from slurmgen.remote.route import Route
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.request import Request
from slurmgen.slurm.dependencies import NONE, After


class Resubmission(Struct, frozen=True, kw_only=True):
    """What the user asks for."""

    original: Original
    changes: Request = Request()
    "What differs from the request of the original; of a batch script, options that override its header."
    site: str | None = None
    "Where the new job goes; default: where the original ran."
    present_files: bool = False
    "Send the project as it is now, instead of the snapshot that the original ran."
    upload: Upload = Upload()
    "What is sent of present files, and where to."
    after: tuple[str, ...] = ()
    """The jobs that must end first, each `[TYPE:]JOB`; default: those that the original waited for or, at
    another site, those of slurmgen.toml."""
    command: str
    "The command line that makes the same submission."
    directory: str
    "Where that command line is run."
    key: str = ""
    "The idempotency key of the first array; default: a new one."
    cache_dir: Path | None = None
    "A private folder for compiled templates."

    def spec(self) -> JobSpec:
        """The job with the changes; raises as `again`."""
        return again(self.original, self.changes, self.site)


class Ready(Struct, frozen=True):
    """A resubmission that is ready to be sent."""

    arrays: list[Prepared]
    "More than one only for a sweep beyond the site's array size."
    plan: Plan | None = None
    "None for a batch script."
    project: str = ""
    "The folder whose files as they are now are sent; empty for those that the original ran."


def route_to(wanted: Resubmission, ask: Confirm | None = None, **values: Any) -> Route:
    """The route of the new job: that of the original, or to another site.

    Args:
        wanted: what the user asks for.
        ask: asks the user about another place that only the project names; None without a terminal.
        values: of the route to another site, as for `find_route`.

    Raises:
        RequestError: the request is wrong, or the user does not agree to the place.
        ConfigError: slurmgen.toml, personal.toml or a profile is wrong.
    """
    route = wanted.original.job.route
    if wanted.original.kept.batch_script:
        return route
    spec = wanted.spec()
    if spec.site.name == route.site:
        return route
    return route_of(spec.site, spec.personal, spec.project_dir, ask, **values)


def ready(
    wanted: Resubmission,
    route: Route,
    connect: Borrow,
    on_nodes: Callable[[JobSpec, Route], JobSpec] = on_good_nodes,
) -> Ready:
    """Make all that the submission needs.

    Args:
        wanted: what the user asks for.
        route: what `route_to` returned.
        connect: connects to the site of a batch script, which is read there; not called for another job.
        on_nodes: excludes nodes; default: those that are remembered as bad.

    Raises:
        RequestError: the site cannot run the job, or does not have the snapshot of the original.
        SnapshotGone, CommandFailed: the batch script cannot be read.
    """
    original = wanted.original
    if original.kept.batch_script:
        with connect(original.job.route) as transport:
            return Ready(
                [_recorded(wanted, prepare_stored_script(transport, original, wanted.after, wanted.changes))]
            )
    spec = on_nodes(wanted.spec(), route)
    plan = spec.plan()
    prepared = _recorded(wanted, _prepared(wanted, spec, plan, route))
    arrays = arrays_of(prepared, plan, lambda one: spec.render(one, wanted.cache_dir))
    return Ready(arrays, plan, str(spec.project_dir) if wanted.present_files else "")


def next_room(original: Original, changes: Request, site: str | None, connect: Borrow) -> Room:
    """The room of the next job with changes; raises as `ready`, and calls `connect` as that does."""
    if not original.kept.batch_script:
        return room_of_plan(again(original, changes, site).plan())
    with connect(original.job.route) as transport:
        return room_of_script(*script_again(transport, original, changes))


def _prepared(wanted: Resubmission, spec: JobSpec, plan: Plan, route: Route) -> Prepared:
    """The submission of the job; of a sweep, of its first array."""
    original, send = wanted.original, (*wanted.original.kept.send, *wanted.upload.send)
    script = spec.render(plan, wanted.cache_dir)
    identity = _identity(wanted, spec, script)
    if wanted.present_files:
        _require_project(original)
        upload = structs.replace(wanted.upload.by_default_to(spec.personal.remote_dir), send=send)
        prepared = prepare(plan, script, route, spec.project_dir, upload, identity)
    else:
        _require_snapshot(original, route)
        prepared = prepare_stored(plan, script, route, spec.project_dir, original.record, identity)
    prepared = with_request(prepared, spec, send, resubmits=original.record.key)
    return dependent(prepared, _afters(wanted, spec))


def _identity(wanted: Resubmission, spec: JobSpec, script: str) -> str:
    """What distinguishes this submission from others.

    Its fingerprint depends on this text, down to the empty part at the end: a change of it would lose the
    unsettled submissions of earlier versions.
    """
    record = wanted.original.record
    files = "present files" if wanted.present_files else record.snapshot
    return "\0".join((spec.identity(wanted.cache_dir) or script, "resubmits", record.key, files, ""))


def _recorded(wanted: Resubmission, prepared: Prepared) -> Prepared:
    """The submission with its key, and with the command in its entry."""
    key = wanted.key or prepared.submission.key
    made = structs.replace(prepared.submission, key=key)
    record = structs.replace(
        prepared.record, key=key, folder=made.folder, command=wanted.command, directory=wanted.directory
    )
    return structs.replace(prepared, submission=made, record=record)


def _afters(wanted: Resubmission, spec: JobSpec) -> tuple[After, ...]:
    """The jobs that a resubmission waits for."""
    kept, words = wanted.original.kept, wanted.after
    if not words and spec.site.name == kept.site:
        words = kept.after or (NONE,)
    return spec.after(words)


_IS_GONE = """[ -d "$1/snapshots/$2" ] || ls -d "$1/staging/sent.$2".* >/dev/null 2>&1 || echo gone"""
"A snapshot is made from what was sent only after the reply to the submission."


def require_stored(transport: Transport, record: Record) -> None:
    """Refuse a job whose files the cluster no longer has.

    Raises:
        SnapshotGone: it does not have them.
    """
    argv = ["sh", "-c", _IS_GONE, "snapshot", parent_of(record), record.snapshot]
    if record.snapshot and transport.run(argv, timeout=COMMAND_TIMEOUT).out.endswith("gone\n"):
        raise SnapshotGone.of(transport.where, record.snapshot, parent_of(record))


def _require_project(original: Original) -> None:
    project = original.kept.project
    if not Path(project).is_dir():
        raise RequestError(
            f"the project is gone: there is no folder {project}",
            "Leave out --present-files to run the files that the job ran.",
        )


def _require_snapshot(original: Original, route: Route) -> None:
    """Refuse a site that cannot have the files that the job ran."""
    record, there = original.record, original.job.route
    if (route.site, route.via == "twin") != (there.site, there.via == "twin"):
        raise RequestError(
            f"the files that job {record.id} ran are at {there.place}, and not at {route.site}",
            "Add --present-files to send the project as it is now.",
        )
    if not record.snapshot:
        raise RequestError(f"it is not recorded which files job {record.id} ran", "Add --present-files.")
