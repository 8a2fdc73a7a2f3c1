"""Results: what a job made or changed in its folder, fetched without losing anything on this machine.

The remote host is not trusted: what it sends is staged, and placed only once all of it has arrived.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import CommandFailed, RemoteError, RequestError, TransferFailed
from slurmgen.jobs.results.archive_reader import members
from slurmgen.jobs.results.byte_stream import SILENCE, BadArchive, ByteStream
from slurmgen.jobs.results.names import NEVER_FETCHED
from slurmgen.jobs.results.placing import place
from slurmgen.jobs.results.staging import Staged, stage
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport

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
_PACK = f"{_BEGIN}{FOUND} | {{ TAR_OPTIONS= tar -c --null -T - -f - || [ $? = 1 ]; }}"


class Fetched(Struct, frozen=True):
    """The outcome of fetching, by the names of files."""

    new: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    "They were here already, with the same content."
    kept: tuple[str, ...] = ()
    "They are here with another content, and were left as they are."
    refused: tuple[str, ...] = ()
    "They could do harm here, or cannot be here."
    reasons: dict[str, str] = {}
    "Why, for each that was refused."


def fetch(
    transport: Transport,
    folder: str,
    to: Path,
    patterns: Sequence[str] = (),
    *,
    overwrite: bool = False,
    max_size: int = MAX_SIZE,
) -> Fetched:
    """Bring what a job made in `folder` into the folder `to`, which is made if need be.

    Nothing is written outside `to`, nor through a link in it, whatever the remote host sends.

    Args:
        transport: to where the job ran.
        folder: the job's folder there.
        to: the folder here.
        patterns: only files of these names, or in folders of these names, as `find -path` reads them.
        overwrite: replace what is here with another content.
        max_size: bytes of all files together.

    Raises:
        RequestError: there is more than `max_size`, or too many files; nothing was changed here.
        TransferFailed, CommandFailed, ConnectionFailed: not all was received; nothing was changed here.
    """
    command = ["sh", "-c", _PACK, "fetch", folder, *find_tests(patterns)]
    with _writable(to), _made(to) as here, _staging(here) as staging:
        parts = transport.stream(command, timeout=SILENCE)
        try:
            staged = stage(members(ByteStream(parts)), Path(staging), max_size)
        except BadArchive as error:
            raise TransferFailed(
                f"{transport.where} sent no valid archive of {folder}: {error}",
                "Try again; nothing was changed here.",
            ) from None
        except CommandFailed as error:
            raise TransferFailed(f"{folder} could not be fetched: {error.fact}", error.hint) from None
        return _fetched(staged, here, overwrite=overwrite)


def note_fetched(transport: Transport, folder: str) -> None:
    """Note that all results of a run were fetched, for prune.sh; a failure only makes it ask."""
    with suppress(RemoteError):
        transport.run(["sh", "-c", _END, "fetched", folder], timeout=COMMAND_TIMEOUT)


def _fetched(staged: Staged, to: Path, *, overwrite: bool) -> Fetched:
    outcomes = place(staged.files, to, overwrite=overwrite)
    names = {
        kind: tuple(sorted(name for name, (one, _) in outcomes.items() if one == kind))
        for kind in ("new", "same", "kept")
    }
    reasons = staged.refused | {name: why for name, (kind, why) in outcomes.items() if kind == "refused"}
    return Fetched(**names, refused=tuple(sorted(reasons)), reasons=reasons)


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
    """Report why a folder here cannot be written."""
    try:
        yield
    except OSError as error:
        raise RequestError(
            f"results cannot be written in {folder}: {error.strerror or error}",
            "Correct that, or name another folder with --to; nothing was changed here.",
        ) from None
