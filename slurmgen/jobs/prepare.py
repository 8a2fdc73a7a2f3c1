"""Preparing a submission without a connection: the files, the script, and the entry for the ledger."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from os import stat_result
from pathlib import Path, PurePosixPath
from secrets import token_hex

from msgspec import Struct, structs

from slurmgen.config.project import FILE_NAME
from slurmgen.errors import RequestError
from slurmgen.jobs import dependencies, sweep_table
from slurmgen.jobs.batch_script import BatchScript
from slurmgen.jobs.dependencies import Dependency
from slurmgen.jobs.exactly_once import Submission
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.secret_values import Wanted
from slurmgen.paths import cache_folder
from slurmgen.plan import Plan, bad_nodes
from slurmgen.remote.route import Route
from slurmgen.sites.model import Site
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.sizes import of_bytes
from slurmgen.sync.delta import Parcel, expected
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Manifest, Sent, manifest
from slurmgen.sync.needed_files import needed_files, of_batch_script
from slurmgen.sync.project_files import project_files, with_preflight
from slurmgen.sync.remote_paths import parent_folder
from slurmgen.sync.revision import Revision, revision
from slurmgen.sync.shared_env import with_environment
from slurmgen.text import visible

DEFAULT_REMOTE_DIR = "slurmgen"
MAX_SIZE = 1 << 30
"Bytes of a project, above which it is not sent unless the user allows it."
_LISTED = 5
"Files that an error names."
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


def prepare(
    plan: Plan,
    script: str,
    route: Route,
    project_dir: Path,
    remote_dir: str | None = None,
    max_size: int = MAX_SIZE,
    send: Sequence[str] = (),
    identity: str | None = None,
) -> Prepared:
    """Read the project, and make all that a submission needs. It connects to no host.

    Args:
        plan: the plan.
        script: the text of its batch script.
        route: how to reach the site.
        project_dir: the folder to send.
        remote_dir: the remote folder for submissions.
        max_size: bytes of the project, above which it is refused.
        send: files to send although they may hold secrets or are ignored.
        identity: the text by which a repeated submission is found; default: that of the script.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    parent = parent_folder(remote_dir or DEFAULT_REMOTE_DIR, project_dir.resolve().name)
    if route.via != "twin":
        _check_reachable(plan.profile, parent)
    files = _files(plan, project_dir, tuple(send))
    if route.via != "ssh":
        _refuse_nesting(parent, project_dir)
    content, commit = _read(files, project_dir, max_size)
    made = _submission(plan, script, files, content, parent)
    sent = _sent(route, parent)
    record = _pending(made, route, project_dir, commit, identity or script)
    return _prepared(plan, made, route, record, sent, expected(content, sent), project_dir)


def prepare_stored(
    plan: Plan, script: str, route: Route, project_dir: Path, earlier: Record, identity: str
) -> Prepared:
    """Make all that a submission needs that runs the files of an earlier job, which the cluster still has.

    Args:
        plan: the plan.
        script: the text of its batch script.
        route: how to reach the site of that job.
        project_dir: the folder of the project, which is not read.
        earlier: that job.
        identity: the text by which a repeated submission is found.
    """
    content = Manifest.stored(earlier.snapshot)
    made = _submission(plan, script, Snapshot({}), content, parent_of(earlier))
    record = _pending(made, route, project_dir, Revision(earlier.commit, earlier.dirty), identity)
    nothing = Sent(cache_folder() / "manifests" / "none")
    return _prepared(
        plan, structs.replace(made, is_stored=True), route, record, nothing, Parcel("?"), project_dir
    )


def parent_of(record: Record) -> str:
    """The folder of the project on the cluster, from the run folder of one of its jobs."""
    return record.folder.removesuffix(f"/runs/{PurePosixPath(record.folder).name}")


def _prepared(
    plan: Plan, made: Submission, route: Route, record: Record, sent: Sent, first: Parcel, project_dir: Path
) -> Prepared:
    of_plan = structs.replace(
        record,
        stderr=_options(plan).get("error", ""),
        retries=plan.request.on_bad_node == "retry",
        requeue=plan.requeue,
        tasks=sweep_table.as_text(plan.sweep),
    )
    refusals = plan.profile.refusals | bad_nodes.refusals(plan.request)
    secrets = _secrets(plan, project_dir)
    return Prepared(made, route, of_plan, sent, first, refusals, secrets=secrets)


def _secrets(plan: Plan, project_dir: Path) -> Wanted:
    names = plan.request.secrets or ()
    by_project = tuple(name for name in names if plan.files.get(f"secrets.{name}") == FILE_NAME)
    return Wanted(names, by_project, str(project_dir.resolve()))


def prepare_script(
    script: BatchScript,
    site: Site,
    route: Route,
    project_dir: Path,
    remote_dir: str | None = None,
    max_size: int = MAX_SIZE,
    send: Sequence[str] = (),
) -> Prepared:
    """`prepare` for a batch script that is submitted as it is; it must be a file of the project.

    Args:
        script: the batch script.
        site: the cluster.
        route: how to reach it.
        project_dir: the folder to send.
        remote_dir: the remote folder for submissions.
        max_size: bytes of the project, above which it is refused.
        send: files to send although they may hold secrets or are ignored.

    Raises:
        RequestError: the project cannot be sent so, or the script is not among its files.
        TransferFailed: a file cannot be read.
    """
    parent = parent_folder(remote_dir or DEFAULT_REMOTE_DIR, project_dir.resolve().name)
    if route.via != "twin":
        _check_reachable(site, parent)
    if route.via != "ssh":
        _refuse_nesting(parent, project_dir)
    files = project_files(project_dir, [of_batch_script(script.file)], tuple(send))
    content, commit = _read(files, project_dir, max_size)
    made = Submission(
        name=script.name,
        script=script.text,
        files=files,
        content=content,
        parent=parent,
        key=new_key(),
        output=script.output,
        comment=script.option("comment"),
        clusters=script.option("clusters"),
        file=script.file,
    )
    record = _pending(made, route, project_dir, commit, f"{script.file}\0{script.text}")
    record = structs.replace(record, stderr=script.option("error"))
    sent = _sent(route, parent)
    return Prepared(made, route, record, sent, expected(content, sent), site.refusals)


def dependent(prepared: Prepared, afters: Sequence[After]) -> Prepared:
    """The same job, which starts after others.

    A repeated submission is found by their names, because `last` may mean another job then.

    Raises:
        RequestError: there is no such job, or it cannot be waited for.
    """
    if not afters:
        return prepared
    fingerprint = _hash(prepared.record.fingerprint, *(one.text for one in afters))
    record = structs.replace(prepared.record, fingerprint=fingerprint)
    return structs.replace(prepared, record=record, after=dependencies.find(record, afters))


def _sent(route: Route, parent: str) -> Sent:
    """What was sent to a folder before."""
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


def _submission(plan: Plan, script: str, files: Snapshot, content: Manifest, parent: str) -> Submission:
    options = _options(plan)
    return Submission(
        name=plan.name,
        script=script,
        files=files,
        content=content,
        parent=parent,
        key=new_key(),
        output=plan.output,
        comment=options.get("comment", ""),
        clusters=options.get("clusters", ""),
        login_script=plan.login_script,
        login_hash=_login_hash(plan, content),
    )


def _login_hash(plan: Plan, content: Manifest) -> str:
    """The name of what runs on the login node: by its text and the project files that its lines name."""
    words = {word for line in plan.request.before_login or () for word in _NAMES.findall(line)}
    named = sorted(words & content.entries.keys())
    files = [text for name in named for text in (name, content.entries[name].content)]
    return _hash(plan.login_script, *files) if plan.login_script else ""


def _options(plan: Plan) -> dict[str, str]:
    """The further directives, without the quotes that a blank in a value needs."""
    return {key: (value or "").strip('"') for key, value in plan.extra_directives}


def _pending(
    submission: Submission, route: Route, project_dir: Path, commit: Revision, identity: str
) -> Record:
    return Record(
        id="",
        cluster=submission.clusters,
        name=submission.name,
        folder=submission.folder,
        output=submission.output,
        submitted=now(),
        key=submission.key,
        fingerprint=_hash(
            *(route.site, route.via, route.host or "", submission.parent),
            *(str(project_dir.resolve()), identity),
        ),
        state="pending",
        snapshot=submission.content.hash,
        commit=commit.commit,
        dirty=commit.dirty,
        **structs.asdict(route),
    )


def _files(plan: Plan, project_dir: Path, send: tuple[str, ...]) -> Snapshot:
    setup = plan.setup
    files = project_files(project_dir, needed_files(plan), send)
    files = with_preflight(files) if plan.preflight else files
    return with_environment(files, setup.python_env, setup.modules, cache_folder() / "environments")


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
    listed = ", ".join(f"{visible(name)} ({of_bytes(sizes[name])})" for name in biggest)
    raise RequestError(
        f"the project has {of_bytes(sum(sizes.values()))}, more than {of_bytes(most)}; "
        f"its biggest files are {listed}",
        "Name what the job does not need in .slurmgenignore, or allow more with --max-size.",
    )


def new_key() -> str:
    """A key that no other submission has."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(4)}"


def now() -> str:
    """The time for the ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _hash(*texts: str) -> str:
    return sha256(b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)).hexdigest()


def _short(*texts: str) -> str:
    return _hash(*texts)[:16]
