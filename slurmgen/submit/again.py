"""Submit an earlier job again."""

from collections.abc import Callable, Iterable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.places import Confirm, route_of
from slurmgen.ledger.request import Recorded, kept_of, resubmits, script_file, spec_again, spec_at
from slurmgen.plan import Plan
from slurmgen.remote.route import Route
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.request.model import Request
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.dependencies import NONE, After, check_alone, given
from slurmgen.status import lookup
from slurmgen.status.job import Borrow, Job, Selection, check_parameters, chosen, selection, table_of
from slurmgen.status.logs import read
from slurmgen.status.lookup import LAST, Options, SiteRoute, is_id
from slurmgen.status.nodes import on_good_nodes
from slurmgen.status.query import query_and_save
from slurmgen.status.report import Report, tables_of
from slurmgen.status.sweep import FAILED, joined
from slurmgen.status.sweep import tasks as tasks_of
from slurmgen.submit.exactly_once import SnapshotGone
from slurmgen.submit.prepare import (
    Prepared,
    Upload,
    dependent,
    parent_of,
    prepare,
    prepare_stored,
    with_request,
)
from slurmgen.submit.proposal import Room, room_of_plan, room_of_script
from slurmgen.submit.script import BatchScript, changed, parsed, prepare_script_again, with_options
from slurmgen.submit.submission import arrays_of

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
        route: what `route_to` returned.
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
    key = wanted.key or prepared.submission.key
    made = structs.replace(prepared.submission, key=key)
    record = structs.replace(
        prepared.record, key=key, folder=made.folder, command=wanted.command, directory=wanted.directory
    )
    return structs.replace(prepared, submission=made, record=record)


def _afters(wanted: Resubmission, spec: JobSpec) -> tuple[After, ...]:
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
    record, there = original.record, original.job.route
    if (route.site, route.via == "twin") != (there.site, there.via == "twin"):
        raise RequestError(
            f"the files that job {record.id} ran are at {there.place}, and not at {route.site}",
            "Add --present-files to send the project as it is now.",
        )
    if not record.snapshot:
        raise RequestError(f"it is not recorded which files job {record.id} ran", "Add --present-files.")


def prepare_stored_script(
    transport: Transport, original: Original, after: Sequence[str], changes: Request
) -> Prepared:
    """Make all that the submission needs.

    Args:
        after: the jobs that must end first, each `[TYPE:]JOB`; default: those that the original waited for.
        changes: options that override the header, on top of those of the original.

    Raises:
        RequestError: the options contradict the script, it has dependencies twice, or a job cannot be
            waited for.
        SnapshotGone: the cluster no longer has the script.
        CommandFailed: it cannot be read.
    """
    kept = original.kept
    afters = given(after or kept.after)
    script, site = script_again(transport, original, changes)
    check_alone(afters, script.option("dependency"))
    route, project_dir = original.job.route, Path(kept.project)
    return dependent(prepare_script_again(script, site, route, project_dir, original.record), afters)


def script_again(transport: Transport, original: Original, changes: Request) -> tuple[BatchScript, Site]:
    """The script with the options of its job and changes, and the site; raises as `prepare_stored_script`."""
    kept = original.kept
    project_dir = Path(kept.project)
    script = parsed(_stored(transport, original), project_dir / kept.batch_script, kept.batch_script)
    site = load_site(kept.site, project_dir)
    return with_options(script, changed(kept.options, changes), site, accepted=kept.options), site


def _stored(transport: Transport, original: Original) -> bytes:
    """The script in the snapshot or, before that is made (soon after a submission), in the run folder."""
    record, file = original.record, original.kept.batch_script
    for folder in (f"{parent_of(record)}/snapshots/{record.snapshot}", record.folder):
        if text := text_of(transport, f"{folder}/{file}"):
            return text
    raise SnapshotGone(
        f"{transport.where} no longer has the files that job {record.id} ran, nor its script",
        f"`slurmgen submit {file}` submits the present script and files.",
    )


class Target(Struct, frozen=True):
    """What the user names to be submitted again."""

    job: str
    "An id or a name."
    task: int | None = None
    "A task of that array."
    selected: Selection | None = None
    "The parameters of some tasks."

    @property
    def names_tasks(self) -> bool:
        """Whether only some tasks are meant."""
        return self.task is not None or self.selected is not None


def target_of(name: str) -> Target:
    """The job and the tasks that a name means, such as `12_3` or `train[lr=1e-3]`.

    Raises:
        RequestError: the brackets do not contain parameters.
    """
    if asked := selection(name):
        return Target(asked.job, selected=asked)
    array, _, task = name.partition("_")
    if is_id(name) and task and any(record.tasks for record in Ledger().find(array)):
        return Target(array, int(task))
    return Target(name)


def arrays_of_record(record: Record) -> tuple[Record, ...]:
    """The records of all arrays of a sweep.

    Raises:
        RequestError: the job is not a sweep.
    """
    if not record.tasks:
        raise RequestError(f"job {record.id} is not a sweep", "Only a sweep has tasks to run again.")
    return Ledger().group(record)


def named_tasks(record: Record, target: Target) -> tuple[int, ...]:
    """The numbers, in the whole sweep, of the tasks that the user names.

    Raises:
        RequestError: there are none.
    """
    records = arrays_of_record(record)
    if target.selected is None:
        table = table_of(record)
        if table is None or target.task not in table.tasks:
            raise RequestError(f"the sweep {record.id} has no task {target.task}", "Name another.")
        return (table.first + int(target.task or 0),)
    found = {_first(one) + task for one in records for task, _ in chosen(one, target.selected.parameters)}
    if not found:
        check_parameters(records, target.selected)
    return tuple(sorted(found))


def failed_tasks(report: Report) -> tuple[int, ...]:
    """The numbers, in the whole sweep, of the tasks that failed, without those that were cancelled.

    Raises:
        RequestError: no task has failed.
    """
    found = [
        table.first + index for _, table, index, state in tasks_of(report) if state and state.state in FAILED
    ]
    if not found:
        unknown = sum(map(len, (table.tasks for table in tables_of(report).values()))) - len(report.states)
        more = f", but Slurm does not list {unknown} of them" if unknown > 0 else ""
        raise RequestError(
            f"no task of {report.name} has failed{more}",
            f"`slurmgen status {report.job.id} --tasks` lists them; {report.name}[NAME=VALUE] names some.",
        )
    return tuple(sorted(found))


def tasks_that_failed(transport: Transport, job: Job) -> tuple[int, ...]:
    """The numbers of the tasks of a sweep that have failed, as Slurm reports them now.

    Args:
        job: one array of the sweep.

    Raises:
        RequestError: no task has failed, or the job is not a sweep.
        CommandFailed: Slurm did not reply.
    """
    arrays = _jobs(arrays_of_record(job.record), job) if job.record else [job]
    (report,) = joined(query_and_save(transport, arrays, explain=False))
    return failed_tasks(report)


def with_earlier(arrays: Sequence[Job]) -> list[Job]:
    """The arrays of a sweep, and before them those at the same site that they run again in part."""
    ledger, first = Ledger(), arrays[0].record
    earlier: list[Job] = []
    seen = {first.key} if first else set()
    while first and (key := resubmits(first)) and key not in seen:
        seen.add(key)
        first = ledger.of_key(key)
        if first and first.tasks and first.site == arrays[0].route.site:
            earlier = [*_jobs(ledger.group(first), arrays[0]), *earlier]
    return [*earlier, *arrays]


def _jobs(records: Iterable[Record], like: Job) -> list[Job]:
    return [Job.of(record, like.route) for record in records]


def _first(record: Record) -> int:
    table = table_of(record)
    return table.first if table else 0
