"""Prepare a submission: the files to send, the script, and its entry of the ledger."""

import gc
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from os import stat_result
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

from msgspec import Struct, structs

from slurmgen.config.project import FILE_NAME
from slurmgen.errors import RequestError
from slurmgen.files import cache_folder
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import recorded
from slurmgen.plan import Plan, requeue
from slurmgen.plan.placement import warnings
from slurmgen.plan.software import login_script
from slurmgen.plan.sweep import array_plans
from slurmgen.program.checks import unsent
from slurmgen.remote.route import Route
from slurmgen.sites.model import Site
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.units import readable_size
from slurmgen.status.job import Dependency, logs_in, sweep_text
from slurmgen.submit import dependencies
from slurmgen.submit.exactly_once import Submission
from slurmgen.submit.how import DEFAULT, How
from slurmgen.submit.secrets import NO_SECRETS, Wanted
from slurmgen.sync.files import Snapshot, needed_files, project_files, with_preflight
from slurmgen.sync.git import Revision, revision
from slurmgen.sync.manifest import Manifest, Parcel, Sent, expected, manifest, parent_folder
from slurmgen.sync.shared_env import with_environment
from slurmgen.text import visible

DEFAULT_REMOTE_DIR = "slurmgen"
_LISTED = 5
"Files that an error names."


def new_key() -> str:
    """A key that no other submission has."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(4)}"


def now() -> str:
    """The time for the ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def hash_of(*texts: str) -> str:
    """A hash of texts, which differs if any of them does."""
    return sha256(b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)).hexdigest()


class ProjectContent(Struct, frozen=True):
    """What a submission sends, and where to."""

    files: Snapshot
    content: Manifest
    commit: Revision
    parent: str
    "Folder of the project on the cluster; relative to the remote home."
    sent: Sent
    "What was sent to the same folder before."
    is_stored: bool = False
    "Whether only the cluster has it, so that nothing can be sent."

    @property
    def first(self) -> Parcel:
        """The files to send, judged by what was sent before."""
        return Parcel("?") if self.is_stored else expected(self.content, self.sent)


def project_content(
    site: Site, route: Route, project_dir: Path, how: How, find: Callable[[], Snapshot]
) -> ProjectContent:
    """Read a project. It connects to no host.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    parent = parent_folder(how.remote_dir or DEFAULT_REMOTE_DIR, project_dir.resolve().name)
    if route.via != "twin":
        _check_reachable(site, parent)
    with _without_collections():
        files = find()
        if route.via != "ssh":
            _refuse_nesting(parent, project_dir)
        content, commit = _read(files, project_dir, how.max_size)
    sent = Sent(cache_folder() / "manifests" / _short(route.site, route.via, route.host or "", parent))
    return ProjectContent(files, content, commit, parent, sent)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Without garbage collection: there is no garbage, and looking for it takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def stored_content(record: Record) -> ProjectContent:
    """The files that an earlier job ran, which the cluster still has; the project is not read."""
    commit = Revision(record.commit, record.dirty)
    nothing = Sent(cache_folder() / "manifests" / "none")
    content = Manifest.stored(record.snapshot)
    return ProjectContent(Snapshot({}), content, commit, parent_of(record), nothing, is_stored=True)


def parent_of(record: Record) -> str:
    """The folder of the project on the cluster, from the run folder of one of its jobs."""
    return record.folder.removesuffix(f"/runs/{PurePosixPath(record.folder).name}")


def _check_reachable(site: Site, parent: str) -> None:
    """Refuse a folder that compute nodes do not reach; where the home folder is, the profile does not say."""
    in_home = not parent.startswith("/")
    if site.job_folders and not in_home and not any(parent.startswith(f"{top}/") for top in site.job_folders):
        tops = " or ".join(site.job_folders)
        raise RequestError(
            f"compute nodes of {site.name} do not reach {parent}, only folders below {tops}",
            f"Name one of those with --remote-dir, such as {site.job_folders[0]}/PROJECT/slurmgen.",
        )


def _read(files: Snapshot, project_dir: Path, max_size: int) -> tuple[Manifest, Revision]:
    """The content of the files, and the commit that they are of; git runs meanwhile."""
    statuses = files.statuses()
    _check_size(statuses, max_size)
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(revision, project_dir)
        hashes = cache_folder() / "hashes" / _short(str(project_dir.resolve()))
        return manifest(files, hashes, statuses), commit.result()


def _refuse_nesting(parent: str, project_dir: Path) -> None:
    """On this machine, submissions inside the project would send all earlier ones with it."""
    if Path(Path.home(), parent).resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"submissions would go to {parent}, inside the project itself",
            "Name a folder outside it with --remote-dir.",
        )


def _check_size(statuses: Mapping[str, stat_result], most: int) -> None:
    sizes = {name: status.st_size for name, status in statuses.items()}
    if sum(sizes.values()) <= most:
        return
    biggest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_LISTED]
    listed = ", ".join(f"{visible(name)} ({readable_size(sizes[name])})" for name in biggest)
    raise RequestError(
        f"the project has {readable_size(sum(sizes.values()))}, more than {readable_size(most)}; "
        f"its biggest files are {listed}",
        "Name what the job does not need in .slurmgenignore, or allow more with --max-size.",
    )


def _short(*texts: str) -> str:
    return hash_of(*texts)[:16]


_NAMES = re.compile(r"""(?:\./)?([^\s'"=;:|&<>()`]+)""")
"The words in a line of shell that may name a project file."


class Prepared(Struct, frozen=True, kw_only=True):
    """A job that is ready to be sent, and its entry for the ledger."""

    submission: Submission
    route: Route
    record: Record
    sent: Sent
    "What was sent to the same folder before."
    first: Parcel
    "The files to send, judged by that."
    refusals: dict[str, str] = {}
    "What to do when Slurm refuses the job, by a part of the message."
    after: tuple[Dependency, ...] = ()
    "The jobs that must end first."
    needs: tuple[tuple[int, str], ...] = ()
    "Those of the same group that must end first, by their place in it, and how they must end."
    secrets: Wanted = NO_SECRETS
    "Their values are added when the job is submitted."
    one_key: bool = False
    "If the key is closed: fail (True), or retry with a new key."
    notes: tuple[str, ...] = ()
    "What the user may not have meant."


class Entry(Struct, frozen=True, kw_only=True):
    """What the ledger keeps of a submission, besides what is sent."""

    identity: str = ""
    "The text by which a repeated submission is found; default: the script."
    request: str = ""
    "What was asked for; see `recorded`."
    after: tuple[After, ...] = ()
    "The jobs that must end first. A repeated submission is found by their names: `last` may be another then."
    group: tuple[str, ...] = ()
    "The name of the job, then the names of all jobs of its group."
    needs: tuple[tuple[int, str], ...] = ()
    "See `Prepared.needs`."
    race: str = ""
    "The key of the race: no other submission finds the entry, and it keeps its key."
    key: str = ""
    "The idempotency key; default: a new one."
    job: JobSpec | None = None
    "The job whose program and data are checked against the plan."


_ANY = Entry()


def prepare(
    plan: Plan,
    render: Callable[[Plan], str],
    route: Route,
    project_dir: Path,
    how: How = DEFAULT,
    entry: Entry = _ANY,
    earlier: Record | None = None,
) -> list[Prepared]:
    """Read the project, and make all that a submission needs. It connects to no host.

    Args:
        earlier: a job whose files are run, which the cluster still has; then the project is not read.

    Returns:
        One submission; of a sweep beyond the site's array size, one for each array, all of the same files.

    Raises:
        RequestError: the project cannot be sent so, or there is no job that must end first.
        TransferFailed: a file cannot be read.
    """
    find = partial(_files, plan, project_dir, how.send)
    content = (
        stored_content(earlier) if earlier else project_content(plan.profile, route, project_dir, how, find)
    )
    script, options = render(plan), _options(plan)
    fields = {
        "stderr": options.get("error", ""),
        "retries": plan.request.on_bad_node == "retry",
        "requeue": plan.requeue,
        "tasks": sweep_text(plan.sweep),
    }
    first = made(
        *(content, route, project_dir, how, entry),
        fields,
        refusals=plan.profile.refusals | requeue.bad_node_refusals(plan.request),
        secrets=_secrets(plan, project_dir),
        notes=tuple(_notes(plan, entry.job, content)),
        name=plan.name,
        script=script,
        output=plan.output,
        comment=options.get("comment", ""),
        clusters=options.get("clusters", ""),
        login_script=login_script(plan),
        login_hash=_login_hash(plan, content.content),
    )
    return [first, *(_further(first, one, render(one)) for one in array_plans(plan)[1:])]


def made(
    content: ProjectContent,
    route: Route,
    project_dir: Path,
    how: How,
    entry: Entry,
    fields: Mapping[str, Any],
    *,
    refusals: dict[str, str],
    secrets: Wanted = NO_SECRETS,
    notes: tuple[str, ...] = (),
    **further: Any,
) -> Prepared:
    """The submission with its entry of the ledger.

    Args:
        fields: further fields of the record.
        further: further fields of the submission.

    Raises:
        RequestError: there is no job that must end first, or it cannot be waited for.
    """
    submission = Submission(
        files=content.files,
        content=content.content,
        parent=content.parent,
        key=entry.key or new_key(),
        is_stored=content.is_stored,
        **further,
    )
    record = _record(submission, content, route, project_dir, how, entry, fields)
    return Prepared(
        submission=submission,
        route=route,
        record=record,
        sent=content.sent,
        first=content.first,
        after=dependencies.find(record, entry.after),
        needs=entry.needs,
        one_key=bool(entry.race),
        refusals=refusals,
        secrets=secrets,
        notes=notes,
    )


def _record(
    submission: Submission,
    content: ProjectContent,
    route: Route,
    project_dir: Path,
    how: How,
    entry: Entry,
    fields: Mapping[str, Any],
) -> Record:
    return Record(
        id="",
        cluster=submission.clusters,
        name=submission.name,
        folder=submission.folder,
        output=submission.output,
        submitted=now(),
        key=submission.key,
        fingerprint=_fingerprint(submission, route, project_dir, entry),
        state="pending",
        snapshot=submission.content.hash,
        commit=content.commit.commit,
        dirty=content.commit.dirty,
        request=entry.request,
        command=how.command,
        directory=how.directory,
        part_of=entry.race,
        **structs.asdict(route),
        **fields,
    )


def _fingerprint(submission: Submission, route: Route, project_dir: Path, entry: Entry) -> str:
    """The text by which a repeated submission finds its entry; other versions of slurmgen make the same."""
    if entry.race:
        return sha256("\0".join((entry.race, route.site)).encode()).hexdigest()
    place = (route.site, route.via, route.host or "", submission.parent, str(project_dir.resolve()))
    found = hash_of(*place, entry.identity or submission.script)
    if entry.after:
        found = hash_of(found, *(one.text for one in entry.after))
    return sha256("\0".join([found, *entry.group]).encode()).hexdigest() if entry.group else found


def _further(first: Prepared, plan: Plan, script: str) -> Prepared:
    """The submission of another array of the same sweep."""
    submission = structs.replace(first.submission, script=script, key=new_key())
    number = plan.sweep.array.first if plan.sweep else 0
    record = structs.replace(
        first.record,
        key=submission.key,
        folder=submission.folder,
        fingerprint=f"{first.record.fingerprint}+{number}",
        tasks=sweep_text(plan.sweep),
    )
    return structs.replace(first, submission=submission, record=record)


def _secrets(plan: Plan, project_dir: Path) -> Wanted:
    names = plan.request.secrets or ()
    by_project = tuple(name for name in names if plan.files.get(f"secrets.{name}", "").startswith(FILE_NAME))
    return Wanted(names, by_project, str(project_dir.resolve()))


def _login_hash(plan: Plan, content: Manifest) -> str:
    """The name of what runs on the login node: by its text and the project files that its lines name."""
    words = {word for line in plan.request.before_login or () for word in _NAMES.findall(line)}
    named = sorted(words & content.entries.keys())
    files = [text for name in named for text in (name, content.entries[name].content)]
    return hash_of(script, *files) if (script := login_script(plan)) else ""


def _options(plan: Plan) -> dict[str, str]:
    """The further directives, without the quotes that a blank in a value needs."""
    return {key: (value or "").strip('"') for key, value in plan.extra_directives}


def _files(plan: Plan, project_dir: Path, send: tuple[str, ...]) -> Snapshot:
    setup = plan.setup
    logs = logs_in(project_dir, Ledger().with_logs_elsewhere())
    files = project_files(project_dir, needed_files(plan), send, logs)
    files = with_preflight(files) if plan.preflight else files
    return with_environment(files, setup.python_env, setup.modules, cache_folder() / "environments")


def _notes(plan: Plan, job: JobSpec | None, content: ProjectContent) -> Iterator[str]:
    yield from warnings(plan).values()
    if job:
        yield from (f"warning: {text}" for text in job.warnings(plan))
    if not plan.request.names_program:
        yield f"no script is named: the bundled example {plan.script} is sent; name yours with --script"
    if job:
        missing = unsent(job.request, job.program, job.project_dir, content.content.entries)
        yield from (f"warning: {text}" for text in missing)


def prepare_job(job: JobSpec, plan: Plan, route: Route, how: How, **entry: Any) -> list[Prepared]:
    """`prepare` for the plan of a job; the entry for the ledger keeps what was asked for.

    Args:
        entry: further fields of the entry.

    Raises:
        ConfigError: a template of the project is wrong.
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    identity, request = job.identity(how.cache_dir) or "", recorded(job, how.send)
    kept = Entry(identity=identity, request=request, job=job, **entry)
    how, render = how.by_default_to(job.personal.remote_dir), partial(job.render, cache_dir=how.cache_dir)
    return prepare(plan, render, route, job.project_dir, how, kept)
