"""Submitting a plan: the ledger says which key, the far side makes one job of it.

>>> from slurmgen import Request, load_site, resolve, submit
>>> plan = resolve(Request(script="train.py", gpus=4), load_site("daic"))
>>> job = submit(plan)  # doctest: +SKIP
>>> job.id  # doctest: +SKIP
'4711'
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from os import stat_result
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json, structs

from slurmgen.errors import RequestError, SlurmgenError, TransferFailed
from slurmgen.jobs import exactly_once as there
from slurmgen.jobs.exactly_once import (
    WAITS,
    Closed,
    Count,
    Refused,
    Submission,
    Submitted,
    Waits,
)
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.paths import cache_folder
from slurmgen.python_env import needed_files
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.sizes import of_bytes
from slurmgen.sync.delta import Parcel, expected
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Sent, manifest
from slurmgen.sync.project_files import project_files
from slurmgen.sync.remote_paths import parent_folder
from slurmgen.sync.revision import Revision, revision
from slurmgen.sync.shared_env import with_environment
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.plan import Plan

DEFAULT_REMOTE_DIR = "slurmgen"
MAX_SIZE = 1 << 30
"Bytes of a project, above which it is not sent unless the user allows it."
_NAMED = 5


class Prepared(Struct, frozen=True):
    """A job that is ready to be sent, and its entry for the ledger."""

    submission: Submission
    way: Route
    record: Record
    sent: Sent
    "What went that way before."
    first: Parcel
    "What of the project is to be sent, by that."


def submit(
    plan: "Plan",
    project_dir: Path | str = ".",
    *,
    remote_dir: str | None = None,
    again: bool = False,
    send: tuple[str, ...] = (),
    **way: Any,
) -> Record:
    """Send a project and submit its job, exactly once, as `slurmgen submit` does.

    If it fails, calling it again with the same plan finds the job or submits it.

    Args:
        plan: what `resolve` gave.
        project_dir: the folder that is sent; its slurmgen.toml and site profiles count.
        remote_dir: the folder over there.
        again: submit a new job although it is not known what became of the last one.
        send: files that are sent although they hold secrets by their names, or are ignored.
        way: `via`, `host` and `ssh_config`, if not those of your personal file and the profile.

    Raises:
        RequestError, ConfigError: the request is wrong; nothing was sent.
        Unresolved: there may be a job; call it again.
        RemoteError: there is no job.
    """
    from slurmgen.config.project import find_project, own_templates
    from slurmgen.config.user import load_personal
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import find_route
    from slurmgen.script import render
    from slurmgen.sites.profiles import load_site

    folder, project = find_project(Path(project_dir).absolute())
    personal = load_personal(plan.site)
    route_there = find_route(load_site(plan.site, folder), personal, **way)
    with BackgroundLogin(route_there) as going:
        text = render(plan, own_templates(folder, project))
        prepared = prepare(plan, text, route_there, folder, remote_dir or personal.remote_dir, send=send)
        ledger = Ledger()
        entry = ledger.claim(prepared.record, again=again)
        with reached(ledger, entry, going.transport) as far:
            entry, done = submit_entry(far, prepared, entry, ledger)
    settled = settled_record(prepared, entry, done)
    ledger.settle(settled)
    return settled


def prepare(
    plan: "Plan",
    text: str,
    way: Route,
    project_dir: Path,
    remote_dir: str | None = None,
    max_size: int = MAX_SIZE,
    send: tuple[str, ...] = (),
) -> Prepared:
    """Read the project, and make all that a submission needs. Contacts nobody.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    parent = parent_folder(remote_dir or DEFAULT_REMOTE_DIR, project_dir.resolve().name)
    files = _files(plan, project_dir, send)
    if way.via != "ssh":
        _refuse_nesting(parent, project_dir)
    statuses = files.statuses()
    _check_size(statuses, max_size)
    with ThreadPoolExecutor(1) as pool:
        revised = pool.submit(revision, project_dir)
        content = manifest(files, cache_folder() / "hashes" / _short(str(project_dir.resolve())), statuses)
        at = revised.result()
    options = {key: (value or "").strip('"') for key, value in plan.extra_directives}  # a blank needs quotes
    submission = Submission(
        name=plan.name,
        script=text,
        files=files,
        content=content,
        parent=parent,
        key=_new_key(),
        output=plan.output,
        comment=options.get("comment", ""),
        clusters=options.get("clusters", ""),
    )
    record = _pending(submission, way, project_dir, at)
    sent = Sent(cache_folder() / "manifests" / _short(way.site, way.via, way.host or "", parent))
    return Prepared(submission, way, record, sent, expected(content, sent))


def reached(ledger: Ledger, entry: Record, reach: Callable[[], Transport]) -> Transport:
    """Go there; if that fails, the entry was for nothing."""
    try:
        return reach()
    except (SlurmgenError, KeyboardInterrupt):
        ledger.release(entry.key)
        raise


def submit_entry(
    far: Transport,
    prepared: Prepared,
    entry: Record,
    ledger: Ledger,
    waits: Waits = WAITS,
    count: Count | None = None,
) -> tuple[Record, Submitted]:
    """Make the job of an entry that was claimed; the entry too, since a refused one gives way to a new one.

    Raises:
        RemoteError: as `remote.submission.submit` says. The entry stays while there may be a job.
    """
    about = json.encode(structs.replace(prepared.record, key=entry.key)).decode() + "\n"
    submission = structs.replace(prepared.submission, key=entry.key, record=about)
    try:
        return entry, there.submit(far, submission, prepared.sent, waits, count, prepared.first)
    except Closed:  # another terminal, or we when the answer was lost
        ledger.drop(entry.key)
        entry = ledger.claim(structs.replace(prepared.record, key=_new_key()))
        return submit_entry(far, prepared, entry, ledger, waits, count)
    except Refused:
        ledger.drop(entry.key)
        raise
    except TransferFailed:
        ledger.release(entry.key)
        raise


def settled_record(prepared: Prepared, entry: Record, done: Submitted) -> Record:
    """The entry with its job. What an earlier submission sent may differ from what would be sent now."""
    ours = prepared.record if done.snapshot == prepared.submission.content.hash else entry
    return structs.replace(
        entry,
        id=done.job.number,
        cluster=done.job.cluster,
        folder=done.folder,
        state="submitted",
        submitted=entry.submitted if done.earlier else _now(),
        snapshot=done.snapshot,
        commit=ours.commit,
        dirty=ours.dirty,
    )


def _pending(submission: Submission, way: Route, project_dir: Path, at: Revision) -> Record:
    return Record(
        id="",
        cluster=submission.clusters,
        name=submission.name,
        folder=submission.folder,
        output=submission.output,
        submitted=_now(),
        key=submission.key,
        fingerprint=_hash(
            *(way.site, way.via, way.host or "", submission.parent),
            *(str(project_dir.resolve()), submission.script),
        ),
        state="pending",
        snapshot=submission.content.hash,
        commit=at.commit,
        dirty=at.dirty,
        **structs.asdict(way),
    )


def _files(plan: "Plan", project_dir: Path, send: tuple[str, ...]) -> Snapshot:
    setup = plan.setup
    files = project_files(project_dir, plan.script, needed_files(setup.python_env), send)
    return with_environment(files, setup.python_env, setup.modules, cache_folder() / "environments")


def _refuse_nesting(parent: str, project_dir: Path) -> None:
    """On this machine, a submission within the project would send all those before it again."""
    if Path(Path.home(), parent).resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"submissions would go to {parent}, inside the project itself",
            "Name a folder outside it with --remote-dir.",
        )


def _check_size(statuses: Mapping[str, stat_result], most: int) -> None:
    sizes = {name: status.st_size for name, status in statuses.items()}
    if sum(sizes.values()) <= most:
        return
    biggest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_NAMED]
    told = ", ".join(f"{visible(name)} ({of_bytes(sizes[name])})" for name in biggest)
    raise RequestError(
        f"the project has {of_bytes(sum(sizes.values()))}, more than {of_bytes(most)}; "
        f"its biggest files are {told}",
        "Name what the job does not need in .slurmgenignore, or allow more with --max-size.",
    )


def _new_key() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(4)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _hash(*texts: str) -> str:
    return sha256(b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)).hexdigest()


def _short(*texts: str) -> str:
    return _hash(*texts)[:16]
