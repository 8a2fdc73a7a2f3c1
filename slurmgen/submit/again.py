"""Submit an earlier job again."""

from collections.abc import Callable, Iterable, Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.places import Confirm
from slurmgen.ledger.request import (
    Recorded,
    kept_of,
    recorded,
    resubmits,
    script_file,
    spec_again,
    spec_at,
)
from slurmgen.plan import Plan
from slurmgen.remote.route import Route
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.request.model import Request, Sweep, merge
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.dependencies import NONE, After
from slurmgen.status import lookup
from slurmgen.status.job import Borrow, Job, Selection, check_parameters, chosen, selection, table_of
from slurmgen.status.logs import read
from slurmgen.status.lookup import LAST, Options, SiteRoute, is_id
from slurmgen.status.query import query_and_save
from slurmgen.status.report import Report, tables_of
from slurmgen.status.sweep import FAILED, joined
from slurmgen.status.sweep import tasks as tasks_of
from slurmgen.submit.exactly_once import SnapshotGone
from slurmgen.submit.how import How
from slurmgen.submit.job import on_good, route_of_spec
from slurmgen.submit.prepare import Entry, Prepared, parent_of, prepare
from slurmgen.submit.proposal import Proposal, Room, lacked, proposal, room_of_plan, room_of_script
from slurmgen.submit.script import BatchScript, changed, parsed, prepare_script, with_options
from slurmgen.submit.submission import Login, Observer

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


def original_script(transport: Transport, original: Original) -> str:
    """The batch script that the original ran; empty if its run folder is gone.

    Raises:
        CommandFailed: it cannot be read.
    """
    path = f"{original.record.folder}/{script_file(original.record)}"
    return script_text(transport, path).decode(errors="surrogateescape")


def script_text(transport: Transport, path: str) -> bytes:
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
    """An earlier job, to be submitted again with changes."""

    original: Original
    changes: Request = Request()
    "What differs from the request of the original; of a batch script, options that override its header."
    site: str | None = None
    "Where the new job goes; default: where the original ran."
    present_files: bool = False
    "Send the project as it is now, instead of the snapshot that the original ran."
    tasks: "Target | None" = None
    "Of a sweep: only the tasks that it names."
    failed: bool = False
    "Of a sweep: only the tasks that failed."
    propose: "Propose | None" = None
    "Decides on a proposal after the job lacked memory or time; default: there is none."
    key: str = ""
    "The idempotency key of the first array; default: a new one."

    def spec(self) -> JobSpec:
        """The job as it was asked for, with the changes; at another site, by the present slurmgen.toml.

        Raises:
            RequestError: the value of a secret is missing, or the job does not exist any more.
            ConfigError: slurmgen.toml, personal.toml or a profile is wrong.
        """
        if self.site in (None, self.original.kept.site):
            return spec_again(self.original.kept, self.changes)
        return spec_at(self.original.kept, str(self.site), self.changes)

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """The route of the new job: the original's, or one to another site. See `Work`."""
        route = self.original.job.route
        if self.original.kept.batch_script:
            return route
        spec = self.spec()
        if spec.site.name == route.site:
            return route
        return route_of_spec(spec, how, ask, connects=connects)

    def arrays(self, login: Login, route: Route, how: How, observer: Observer) -> list[Prepared]:
        """All that the submission needs. See `Work`.

        Raises:
            RequestError: the site cannot run the job, or does not have the snapshot of the original.
            SnapshotGone, CommandFailed: the batch script cannot be read.
        """
        wanted = self.decided(login.use)
        if self.original.kept.batch_script:
            with login.use(self.original.job.route) as transport:
                return [_prepared_script(wanted, transport, how)]
        spec = on_good(wanted.spec(), route, how, observer)
        return _prepared(wanted, spec, route, how)

    def decided(self, use: Borrow) -> "Resubmission":
        """The same with the tasks that are selected, and with what is proposed."""
        wanted = self.with_changes(self._only_some(use))
        more = self.propose(wanted, use) if self.propose else None
        return wanted.with_changes(more or Request())

    def with_changes(self, more: Request) -> "Resubmission":
        """The same with more changes."""
        return structs.replace(self, changes=merge(self.changes, more))

    def _only_some(self, use: Borrow) -> Request:
        """The change of the request that selects tasks of a sweep; none for a whole job."""
        if self.tasks and self.tasks.names_tasks:
            return Request(sweep=Sweep(tasks=named_tasks(self.original.record, self.tasks)))
        if not self.failed:
            return Request()
        with use(self.original.job.route) as transport:
            return Request(sweep=Sweep(tasks=tasks_that_failed(transport, self.original.job)))


Propose = Callable[[Resubmission, Borrow], Request | None]
"The changes that are proposed for a resubmission, if the user wants them."


def proposed(wanted: Resubmission, report: Report, use: Borrow) -> Proposal | None:
    """What is proposed after the original ran out of memory or time; only then, a batch script is read.

    Args:
        wanted: the resubmission without a proposal.
    """
    if not lacked(report.main, report.why):
        return None
    return proposal(report.main, report.why, _next_room(wanted, use))


def _next_room(wanted: Resubmission, use: Borrow) -> Room:
    if not wanted.original.kept.batch_script:
        return room_of_plan(wanted.spec().plan())
    with use(wanted.original.job.route) as transport:
        return room_of_script(*script_again(transport, wanted.original, wanted.changes))


def _prepared(wanted: Resubmission, spec: JobSpec, route: Route, how: How) -> list[Prepared]:
    original, plan = wanted.original, spec.plan()
    how = structs.replace(how, send=(*original.kept.send, *how.send)).by_default_to(spec.personal.remote_dir)
    _require_project(original) if wanted.present_files else _require_snapshot(original, route)
    entry = Entry(
        identity=_identity(wanted, spec, plan, how.cache_dir),
        request=recorded(spec, how.send, original.record.key),
        after=_afters(wanted, spec, how.after),
        key=wanted.key,
    )
    render = partial(spec.render, cache_dir=how.cache_dir)
    earlier = None if wanted.present_files else original.record
    return prepare(plan, render, route, spec.project_dir, how, entry, earlier)


def _identity(wanted: Resubmission, spec: JobSpec, plan: Plan, cache_dir: Path | None) -> str:
    """What distinguishes this submission from others.

    Its fingerprint depends on this text, down to the empty part at the end: a change of it would lose the
    unsettled submissions of earlier versions.
    """
    record = wanted.original.record
    files = "present files" if wanted.present_files else record.snapshot
    script = spec.identity(cache_dir) or spec.render(plan, cache_dir)
    return "\0".join((script, "resubmits", record.key, files, ""))


def _afters(wanted: Resubmission, spec: JobSpec, words: tuple[str, ...]) -> tuple[After, ...]:
    """The jobs that must end first; default: those that the original waited for or, at another site, those
    of slurmgen.toml."""
    kept = wanted.original.kept
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


def _prepared_script(wanted: Resubmission, transport: Transport, how: How) -> Prepared:
    """The submission of a batch script with its options and changes, from the files of the original.

    Raises:
        RequestError: the options contradict the script, it has dependencies twice, or a job cannot be
            waited for.
        SnapshotGone: the cluster no longer has the script.
        CommandFailed: it cannot be read.
    """
    original = wanted.original
    script, site = script_again(transport, original, wanted.changes)
    after = script.after(how.after or original.kept.after)
    route, project_dir = original.job.route, Path(original.kept.project)
    return prepare_script(script, site, route, project_dir, how, after, original.record, wanted.key)


def script_again(transport: Transport, original: Original, changes: Request) -> tuple[BatchScript, Site]:
    """The script with the options of its job and changes, and the site; raises as `Resubmission.arrays`."""
    kept = original.kept
    project_dir = Path(kept.project)
    script = parsed(_stored(transport, original), project_dir / kept.batch_script, kept.batch_script)
    site = load_site(kept.site, project_dir)
    return with_options(script, changed(kept.options, changes), site, accepted=kept.options), site


def _stored(transport: Transport, original: Original) -> bytes:
    """The script in the snapshot or, before that is made (soon after a submission), in the run folder."""
    record, file = original.record, original.kept.batch_script
    for folder in (f"{parent_of(record)}/snapshots/{record.snapshot}", record.folder):
        if text := script_text(transport, f"{folder}/{file}"):
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
