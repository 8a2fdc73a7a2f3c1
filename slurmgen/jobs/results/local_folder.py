"""The local folder for the results of a job, and fetching them into it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slurmgen.config.project import FILE_NAME
from slurmgen.errors import RequestError
from slurmgen.files import is_inside
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.results.fetch import MAX_SIZE, Fetched, fetch, note_fetched
from slurmgen.jobs.sweep_table import run_folder
from slurmgen.remote.transport import Transport
from slurmgen.sync.remote_paths import plain


class Results(Fetched, frozen=True, kw_only=True):
    """The results of a job: the local folder, and the state of each file, by its name in the folder."""

    folder: Path

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of the job that are in the folder, fetched now or earlier."""
        return tuple(self.folder / name for name in sorted((*self.new, *self.same)))


def fetch_results(
    transport: Transport,
    job: Job,
    folder: Path,
    patterns: Sequence[str] = (),
    *,
    overwrite: bool = False,
    max_size: int = MAX_SIZE,
) -> Results:
    """Fetch what a job made into a folder. A new folder in the project gets a .gitignore.

    Raises:
        RequestError: the job is not recorded, or has more than `max_size` bytes.
        RemoteError: not all was received; no local file was changed.
    """
    patterns = of_task(job, patterns)
    is_new = not folder.is_dir() or not any(folder.iterdir())
    remote = record_of(job).folder
    fetched = fetch(transport, remote, folder, patterns, overwrite=overwrite, max_size=max_size)
    if not (patterns or fetched.kept or fetched.refused):
        note_fetched(transport, remote)
    if is_new and _is_in_project(folder):
        _ignore(folder)
    values = {field: getattr(fetched, field) for field in Fetched.__struct_fields__}
    return Results(folder=folder, **values)


def of_task(job: Job, patterns: Sequence[str]) -> Sequence[str]:
    """The patterns for the folder and the log of one task of a sweep; unchanged for another job."""
    if not _is_task(job):
        return patterns
    record = record_of(job)
    folder = run_folder(record, str(job.id), job.run)
    paths = [f"{folder}/{pattern}" for pattern in patterns] or [folder, job.log]
    return [path.removeprefix(f"{record.folder}/") for path in paths]


def _is_task(job: Job) -> bool:
    record = record_of(job)
    return bool(record.tasks) and str(job.id) != record.id


def record_of(job: Job) -> Record:
    """The record of a job, which names its folder.

    Raises:
        RequestError: the job has none.
    """
    if job.record is None:
        raise RequestError(
            f"job {job.id} is not in your records, so its folder is not known",
            "`slurmgen status` lists the jobs in your records.",
        )
    return job.record


def local_folder(job: Job, to: Path | None = None, *, shared: bool = False) -> Path:
    """The folder for the results of a job.

    Args:
        job: the job.
        to: the folder that the user chose; default: NAME-ID in the current folder.
        shared: `to` is for several jobs, of which each gets a folder in it: their files have the same names.

    Raises:
        RequestError: the job is not recorded, or the folder is not safe to write to.
    """
    record = record_of(job)
    part = f"-{job.run}" if job.run is not None else ""
    # The name may be that of a script in a cloned repository, such as `../x`.
    own = Path(f"{plain(record.name) or 'job'}-{job.id if _is_task(job) else record.id}{part}")
    folder = own if to is None else to / own if shared else to
    if folder != to and folder.is_symlink():  # a cloned repository may contain one
        raise RequestError(f"{folder} is a link", "Remove it, or name another folder with --to.")
    if is_inside(Path.home(), folder):
        raise RequestError(
            f"{folder} contains your home folder, where a fetched file could change what your shell does",
            "Name another folder with --to.",
        )
    return folder


def _is_in_project(folder: Path) -> bool:
    """Whether the next submission of the current project would send a folder."""
    here = Path.cwd()
    project = next((path for path in (here, *here.parents) if (path / FILE_NAME).is_file()), here)
    return is_inside(folder, project) and not is_inside(project, folder)


def _ignore(folder: Path) -> None:
    """Keep results in the project's folder out of commits and of the next submission."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
        file.write("# Made by `slurmgen fetch`: remove it to commit or send these files.\n*\n")
