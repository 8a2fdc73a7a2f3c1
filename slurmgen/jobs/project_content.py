"""The files of a project that a submission sends: their content, where they go, and what was sent before."""

import gc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import stat_result
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.new_entry import hash_of
from slurmgen.paths import cache_folder
from slurmgen.remote.route import Route
from slurmgen.sites.model import Site
from slurmgen.slurm.sizes import of_bytes
from slurmgen.sync.delta import Parcel, expected
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Manifest, Sent, manifest
from slurmgen.sync.remote_paths import parent_folder
from slurmgen.sync.revision import Revision, revision
from slurmgen.text import visible

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

    Args:
        site: the cluster.
        route: how to reach it.
        project_dir: the folder to send.
        upload: what is sent of it, and where to.
        find: finds the files to send.

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


def _short(*texts: str) -> str:
    return hash_of(*texts)[:16]
