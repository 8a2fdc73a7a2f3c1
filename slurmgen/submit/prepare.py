"""Prepare a submission: the files to send, the script, and its entry of the ledger."""

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from os import stat_result
from pathlib import Path, PurePosixPath
from secrets import token_hex

from msgspec import Struct, json, structs

from slurmgen.config.project import FILE_NAME, Project, needs
from slurmgen.errors import RequestError
from slurmgen.files import cache_folder
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import Recorded, _text, recorded
from slurmgen.plan import Plan, requeue
from slurmgen.plan.software import login_script
from slurmgen.remote.route import Route
from slurmgen.sites.model import Site
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.units import readable_size
from slurmgen.status import job
from slurmgen.status.job import Dependency, logs_in
from slurmgen.submit import dependencies
from slurmgen.submit.exactly_once import Submission
from slurmgen.submit.secrets import Wanted
from slurmgen.sync.files import Snapshot, needed_files, project_files, with_preflight
from slurmgen.sync.git import Revision, revision
from slurmgen.sync.manifest import Manifest, Parcel, Sent, expected, manifest, parent_folder
from slurmgen.sync.shared_env import with_environment
from slurmgen.text import visible


def pending_record(
    submission: Submission, route: Route, project_dir: Path, commit: Revision, identity: str
) -> Record:
    """The entry of a submission.

    Args:
        identity: the text by which a repeated submission is found.
    """
    return Record(
        id="",
        cluster=submission.clusters,
        name=submission.name,
        folder=submission.folder,
        output=submission.output,
        submitted=now(),
        key=submission.key,
        fingerprint=hash_of(
            *(route.site, route.via, route.host or "", submission.parent),
            *(str(project_dir.resolve()), identity),
        ),
        state="pending",
        snapshot=submission.content.hash,
        commit=commit.commit,
        dirty=commit.dirty,
        **structs.asdict(route),
    )


def new_key() -> str:
    """A key that no other submission has."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(4)}"


def now() -> str:
    """The time for the ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def hash_of(*texts: str) -> str:
    """A hash of texts, which differs if any of them does."""
    return sha256(b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)).hexdigest()


DEFAULT_REMOTE_DIR = "slurmgen"
MAX_SIZE = 1 << 30
"Bytes of a project, above which it is not sent unless the user allows it."
_LISTED = 5
"Files that an error names."


class Upload(Struct, frozen=True):
    """What a submission sends of a project, and where to."""

    remote_dir: str | None = None
    "The remote folder for submissions; default: that of personal.toml, else ~/slurmgen."
    max_size: int = MAX_SIZE
    "Bytes of the project, above which it is refused."
    send: tuple[str, ...] = ()
    "Files to send although they may hold secrets or are ignored."

    def by_default_to(self, remote_dir: str | None) -> "Upload":
        """The same, with this folder if none is named."""
        return structs.replace(self, remote_dir=self.remote_dir or remote_dir)


DEFAULT_UPLOAD = Upload()


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
    site: Site, route: Route, project_dir: Path, upload: Upload, find: Callable[[], Snapshot]
) -> ProjectContent:
    """Read a project. It connects to no host.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    parent = parent_folder(upload.remote_dir or DEFAULT_REMOTE_DIR, project_dir.resolve().name)
    if route.via != "twin":
        _check_reachable(site, parent)
    with _without_collections():
        files = find()
        if route.via != "ssh":
            _refuse_nesting(parent, project_dir)
        content, commit = _read(files, project_dir, upload.max_size)
    return ProjectContent(files, content, commit, parent, _sent(route, parent))


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


def _sent(route: Route, parent: str) -> Sent:
    return Sent(cache_folder() / "manifests" / _short(route.site, route.via, route.host or "", parent))


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


class Prepared(Struct, frozen=True):
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
    secrets: Wanted = Wanted()
    "Their values are added when the job is submitted."
    one_key: bool = False
    "If the key is closed: fail (True), or retry with a new key."


def prepare(
    plan: Plan,
    script: str,
    route: Route,
    project_dir: Path,
    upload: Upload = DEFAULT_UPLOAD,
    identity: str | None = None,
) -> Prepared:
    """Read the project, and make all that a submission needs. It connects to no host.

    Args:
        identity: the text by which a repeated submission is found; default: that of the script.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    find = partial(_files, plan, project_dir, upload.send)
    content = project_content(plan.profile, route, project_dir, upload, find)
    return _prepared(plan, script, route, project_dir, content, identity or script)


def prepare_stored(
    plan: Plan, script: str, route: Route, project_dir: Path, earlier: Record, identity: str
) -> Prepared:
    """Make all that a submission needs that runs the files of an earlier job, which the cluster still has.

    Args:
        project_dir: the folder of the project, which is not read.
        identity: the text by which a repeated submission is found.
    """
    return _prepared(plan, script, route, project_dir, stored_content(earlier), identity)


def _prepared(
    plan: Plan, script: str, route: Route, project_dir: Path, content: ProjectContent, identity: str
) -> Prepared:
    made = _submission(plan, script, content)
    record = structs.replace(
        pending_record(made, route, project_dir, content.commit, identity),
        stderr=_options(plan).get("error", ""),
        retries=plan.request.on_bad_node == "retry",
        requeue=plan.requeue,
        tasks=job.sweep_text(plan.sweep),
    )
    refusals = plan.profile.refusals | requeue.bad_node_refusals(plan.request)
    secrets = _secrets(plan, project_dir)
    return Prepared(made, route, record, content.sent, content.first, refusals, secrets=secrets)


def _secrets(plan: Plan, project_dir: Path) -> Wanted:
    names = plan.request.secrets or ()
    by_project = tuple(name for name in names if plan.files.get(f"secrets.{name}", "").startswith(FILE_NAME))
    return Wanted(names, by_project, str(project_dir.resolve()))


def dependent(prepared: Prepared, afters: Sequence[After]) -> Prepared:
    """The same job, which starts after others.

    A repeated submission is found by their names, because `last` may mean another job then.

    Raises:
        RequestError: there is no such job, or it cannot be waited for.
    """
    if not afters:
        return prepared
    fingerprint = hash_of(prepared.record.fingerprint, *(one.text for one in afters))
    record = structs.replace(prepared.record, fingerprint=fingerprint)
    return structs.replace(prepared, record=record, after=dependencies.find(record, afters))


def _submission(plan: Plan, script: str, content: ProjectContent) -> Submission:
    options = _options(plan)
    return Submission(
        name=plan.name,
        script=script,
        files=content.files,
        content=content.content,
        parent=content.parent,
        key=new_key(),
        output=plan.output,
        comment=options.get("comment", ""),
        clusters=options.get("clusters", ""),
        login_script=login_script(plan),
        login_hash=_login_hash(plan, content.content),
        is_stored=content.is_stored,
    )


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


def prepare_job(
    job: JobSpec, plan: Plan, route: Route, upload: Upload, cache_dir: Path | None = None
) -> Prepared:
    """`prepare` for the plan of a job; the entry for the ledger keeps what was asked for.

    Raises:
        ConfigError: a template of the project is wrong.
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    script, identity = job.render(plan, cache_dir), job.identity(cache_dir)
    upload = upload.by_default_to(job.personal.remote_dir)
    prepared = prepare(plan, script, route, job.project_dir, upload, identity)
    return with_request(prepared, job, upload.send)


def with_recorded(prepared: Prepared, kept: Recorded) -> Prepared:
    """The prepared submission, whose entry keeps that."""
    return structs.replace(prepared, record=structs.replace(prepared.record, request=_text(kept)))


def with_after(text: str, afters: Iterable[Dependency]) -> str:
    """The text for `Record.request` of a job that starts after others."""
    words = tuple(f"{one.type}:{one.job.id.number}" for one in afters)
    if not text or not words:
        return text
    return _text(structs.replace(json.decode(text, type=Recorded), after=words))


def with_request(
    prepared: Prepared, spec: JobSpec, send: Sequence[str] = (), resubmits: str = ""
) -> Prepared:
    """The prepared submission, whose entry keeps what was asked for; see `recorded`."""
    text = recorded(spec, send, resubmits)
    return structs.replace(prepared, record=structs.replace(prepared.record, request=text))


def group(prepared: Mapping[str, Prepared], project: Project) -> list[Prepared]:
    """The submissions of one group, each with the ones that it needs.

    A repeated command is found by the names of the jobs in the group and the script of each.

    Args:
        prepared: by the name of the job in slurmgen.toml, in their order.

    Raises:
        RequestError: a job is a sweep, which may be several arrays.
    """
    names = list(prepared)
    for name, one in prepared.items():
        if one.record.tasks:
            raise RequestError(
                f"--all does not submit a sweep, and {name} is one",
                f"Submit it alone: slurmgen submit {name}.",
            )
    return [_member(name, one, names, project) for name, one in prepared.items()]


def _member(name: str, prepared: Prepared, names: Sequence[str], project: Project) -> Prepared:
    within = tuple((names.index(one.job), one.type) for one in needs(project, name))
    text = "\0".join([prepared.record.fingerprint, name, *names])
    record = structs.replace(prepared.record, fingerprint=sha256(text.encode()).hexdigest())
    return structs.replace(prepared, record=record, needs=within)
