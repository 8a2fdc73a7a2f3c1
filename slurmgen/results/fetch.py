"""Copy a job's files to this machine."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from slurmgen.config.project import FILE_NAME
from slurmgen.errors import CommandFailed, RemoteError, RequestError, TransferFailed
from slurmgen.files import is_inside
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.request import script_file
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed
from slurmgen.results.archive import NEVER_FETCHED, SILENCE, BadArchive, ByteStream, members, refusal
from slurmgen.results.folder import place, stage
from slurmgen.slurm import commands, replies
from slurmgen.status.job import Job, run_folder
from slurmgen.status.slurm import call
from slurmgen.text import plain

MAX_SIZE = 100 << 30
"Bytes of results, above which they are not fetched unless the user allows it."

# The project's own files have a ctime before the intent to submit: cp set it, and a job cannot set it back.
# Runs share the files in `shared`, and every new link to one changes its ctime. A file that the job is still
# writing is fetched as it is, which tar's exit status 1 reports. An exported function `cd` may print.
FOUND = (
    '[ -d "$1" ] || { echo "its folder is gone, so it was pruned or moved" >&2; exit 2; }; '
    'cd "$1" >/dev/null || exit; shift; records="../../submissions/${PWD##*/}"; n=1; '
    'while [ -L "$records/intent.$((n + 1))" ]; do n=$((n + 1)); done; '
    '[ -L "$records/intent.$n" ] || { echo "it has no record of a submission" >&2; exit 2; }; '
    '{ find . "$@" -cnewer "$records/intent.$n" -printf "%p %i %T@\\0"; '
    'cat "$records/shared" "$records/shared" 2>/dev/null; } | LC_ALL=C sort -z | LC_ALL=C uniq -zu '
    '| LC_ALL=C sed -z "s/ [^ ]* [^ ]*$//"'
)
"A program that prints the names of the files of a job; its arguments are the folder and tests of `find`."
_BEGIN = 'touch -- "${1%/runs/*}/submissions/${1##*/}/fetching" 2>/dev/null; '
_END = 'cd -- "${1%/runs/*}/submissions/${1##*/}" && mv -f fetching fetched'
# Options of tar in the variable TAR_OPTIONS could leave out files or write another format.
_PACK = f"{_BEGIN}{FOUND} | {{ TAR_OPTIONS= tar -c --format=gnu --null -T - -f - || [ $? = 1 ]; }}"


class Results(Struct, frozen=True, kw_only=True):
    """The results of a job: the local folder, and the state of each file, by its name in the folder."""

    folder: Path
    new: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    "They were here already, with the same content."
    kept: tuple[str, ...] = ()
    "They are here with another content, and were left as they are."
    refused: tuple[str, ...] = ()
    "They could do harm here, or cannot be here."
    reasons: dict[str, str] = {}
    "Why, for each that was refused."

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of the job that are in the folder, fetched now or earlier."""
        return tuple(self.folder / name for name in sorted((*self.new, *self.same)))


def fetch(
    transport: Transport,
    folder: str,
    to: Path,
    patterns: Sequence[str] = (),
    *,
    overwrite: bool = False,
    max_size: int = MAX_SIZE,
) -> Results:
    """Bring what a job made in `folder` into the folder `to`, which is made if need be.

    Nothing is written outside `to`, nor through a link in it, whatever the remote host sends.

    Args:
        patterns: only files of these names, or in folders of these names, as `find -path` reads them.
        overwrite: replace what is here with another content.

    Raises:
        RequestError: there is more than `max_size`, or too many files; nothing was changed here.
        TransferFailed, CommandFailed, ConnectionFailed: not all was received; nothing was changed here.
    """
    command = ["sh", "-c", _PACK, "fetch", folder, *find_tests(patterns)]
    with _writable(to), _made(to) as here, _staging(here) as staging:
        parts = transport.stream(command, timeout=SILENCE)
        try:
            files, refused = stage(members(ByteStream(parts)), Path(staging), max_size)
        except BadArchive as error:
            raise TransferFailed(
                f"{transport.where} sent no valid archive of {folder}: {error}",
                "Try again; nothing was changed here.",
            ) from None
        except CommandFailed as error:
            raise TransferFailed(f"{folder} could not be fetched: {error.fact}", error.hint) from None
        outcomes = place(files, here, overwrite=overwrite)
    refused |= {name: reason for name, (kind, reason) in outcomes.items() if kind == "refused"}
    new, same, kept = (
        tuple(sorted(name for name, (one, _) in outcomes.items() if one == kind))
        for kind in ("new", "same", "kept")
    )
    return Results(folder=to, new=new, same=same, kept=kept, refused=tuple(sorted(refused)), reasons=refused)


def find_tests(patterns: Sequence[str]) -> list[str]:
    """The tests of `find` for the files to fetch."""
    pruned = [word for name in sorted(NEVER_FETCHED) for word in ("-name", name, "-o")][:-1]
    paths = [path for pattern in patterns for path in (f"./{pattern}", f"./{pattern}/*")]
    wanted = [word for path in paths for word in ("-path", path, "-o")][:-1]
    only = ["(", *wanted, ")"] if wanted else []
    return ["(", *pruned, ")", "-prune", "-o", "!", "-type", "d", *only]


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A folder, made if need be, as a path without links; what was made is removed after an error."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve(strict=True)
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


def _staging(folder: Path) -> "tempfile.TemporaryDirectory[str]":
    """A folder on the same file system that other users may not read or write."""
    return tempfile.TemporaryDirectory(dir=folder, prefix=".slurmgen-fetch-", ignore_cleanup_errors=True)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(
            f"results cannot be written in {folder}: {error.strerror or error}",
            "Correct that, or name another folder with --to; nothing was changed here.",
        ) from None


MOST_FILES = 2000
"Files that are listed."
_TIMEOUT = 120.0

_LIST = f"{FOUND} | head -z -n {MOST_FILES + 1} | {{ xargs -0 -r stat --printf='%s %Y %n\\0'; exit 0; }}"

_ROW = re.compile(r"([0-9]{1,18}) ([0-9]{1,12}) \./(.+)", re.DOTALL)


class Made(Struct, frozen=True):
    """A file that a job made or changed."""

    name: str
    "Its path in the run folder."
    size: int
    "Bytes."
    changed: int
    "Seconds since 1970."
    refused: str = ""
    "Why it would not be fetched, else empty."


class Listing(Struct, frozen=True):
    """The files of a job, in the order of their names."""

    files: tuple[Made, ...] = ()
    is_cut: bool = False
    "Whether there are more."


def list_results(transport: Transport, job: Job) -> Listing:
    """The files that a job made or changed; of a task of a sweep, those of its folder and its log.

    Raises:
        RequestError: the job is not recorded.
        CommandFailed: they cannot be listed: the folder may be gone.
    """
    tests = find_tests(of_task(job, ()))
    argv = ["sh", "-c", _LIST, "list", record_of(job).folder, *tests]
    completed = transport.run(argv, timeout=_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    rows = completed.stdout.split(b"\0")
    if rows.pop():
        raise CommandFailed(f"{transport.where} did not list the files of job {job.id}", "Try again.")
    found = sorted(_files(rows), key=lambda file: file.name)
    return Listing(tuple(found[:MOST_FILES]), len(found) > MOST_FILES)


def _files(rows: list[bytes]) -> Iterator[Made]:
    for row in rows:
        if match := _ROW.fullmatch(row.decode(errors="surrogateescape")):
            size, changed, name = match.groups()
            yield Made(name, int(size), int(changed), refusal(name) or "")


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
        with suppress(RemoteError):  # then prune.sh only asks
            transport.run(["sh", "-c", _END, "fetched", remote], timeout=COMMAND_TIMEOUT)
    if is_new and _is_in_project(folder):
        _ignore(folder)
    return fetched


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
    here = Path.cwd()
    project = next((path for path in (here, *here.parents) if (path / FILE_NAME).is_file()), here)
    return is_inside(folder, project) and not is_inside(project, folder)


def _ignore(folder: Path) -> None:
    """Keep results in the project's folder out of commits and of the next submission."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
        file.write("# Made by `slurmgen fetch`: remove it to commit or send these files.\n*\n")


_DIGITS = 18
# A job may replace a file by a link to anywhere, so the file that is opened must be in the folder.
_READ_FILE = (
    'cd "$1" >/dev/null && here=$(pwd -P) && real=$(readlink -f -- "./$2") || exit; '
    'case $real in "$here"/*) ;; *) echo "it leads out of the folder of the job" >&2; exit 2 ;; esac; '
    '[ -f "$real" ] || { echo "it is not a file" >&2; exit 2; }; '
    'size=$(stat -c %s -- "$real") && '
    f'printf "%0{_DIGITS}d" "$size" && exec head -c "$size" <"$real"'
)


def read_file(transport: Transport, folder: str, name: str) -> tuple[int, Iterator[bytes]]:
    """The size of a file of a job in bytes, when it is opened, and its parts.

    Args:
        name: the path of the file in it, as `list_results` returns it.

    Raises:
        TransferFailed, CommandFailed, ConnectionFailed: it cannot be read; the parts raise them too.
    """
    command = ["sh", "-c", _READ_FILE, "file", folder, name]
    try:
        stream = ByteStream(transport.stream(command, timeout=SILENCE))
        size = stream.read(_DIGITS)
        if not size.isdigit():
            raise BadArchive("it has no size")
    except CommandFailed as error:
        raise TransferFailed(f"{name} cannot be read: {error.fact}", error.hint) from None
    except BadArchive as error:
        raise _broken(transport, name, error) from None
    return int(size), _parts(transport, name, stream, int(size))


def _parts(transport: Transport, name: str, stream: ByteStream, size: int) -> Iterator[bytes]:
    try:
        yield from stream.pieces(size)
        stream.finish()
    except BadArchive as error:
        raise _broken(transport, name, error) from None


def _broken(transport: Transport, name: str, error: BadArchive) -> TransferFailed:
    return TransferFailed(f"{transport.where} did not send the whole of {name}: {error}", "Try again.")


MOST_SCRIPT_BYTES = 1_000_000
"Bytes; a larger one is not read whole."

_READ_SCRIPT = 'head -c "$1" "$2"'


def submitted_script(transport: Transport, job: Job) -> str:
    """The script as Slurm keeps it while it knows the job, else that in the run folder.

    Raises:
        RequestError: the job is not recorded.
        CommandFailed: neither exists any more.
    """
    kept = call(transport, commands.batch_script(job.id))
    if not kept.returncode and kept.stdout.startswith(b"#!"):
        shown = replies.scontrol(call(transport, commands.scontrol(job.id)).out)
        if any(replies.is_of(state, job.id) for state in shown):
            return kept.stdout[:MOST_SCRIPT_BYTES].decode(errors="replace")
    record = record_of(job)
    path = f"{record.folder}/{script_file(record)}"
    found = transport.run(
        ["sh", "-c", _READ_SCRIPT, "script", str(MOST_SCRIPT_BYTES), path], timeout=COMMAND_TIMEOUT
    )
    if found.returncode:
        raise CommandFailed(f"the script of job {job.id} is gone from {transport.where}", "Was it pruned?")
    return found.out
