"""Results: what a job made or changed in its folder, brought back without losing anything here."""

import filecmp
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import CommandFailed, TransferFailed
from slurmgen.remote.snapshot import NEVER_SENT
from slurmgen.remote.transport import Transport

SILENCE = 120.0
"Seconds without a byte after which the far side counts as hung."

# The project's own files are older than the intent to submit: cp gave them their ctime, which nobody can
# set back. A file that the job is still writing is taken as it is, and of that tar's exit status 1 tells.
_PACK = (
    '[ -d "$1" ] || { echo "its folder is gone; was it pruned?" >&2; exit 2; }; '
    'cd "$1" || exit; shift; records="../../submissions/${PWD##*/}"; n=1; '
    'while [ -L "$records/intent.$((n + 1))" ]; do n=$((n + 1)); done; '
    '[ -L "$records/intent.$n" ] || { echo "it has no record of a submission" >&2; exit 2; }; '
    'printf "\\000slurmgen answers\\000"; find . "$@" -cnewer "$records/intent.$n" -print0 '
    "| { tar -c --null -T - -f - || [ $? = 1 ]; }"
)
_MARK = b"\0slurmgen answers\0"


class Fetched(Struct, frozen=True):
    """What came of fetching, by the names of files."""

    new: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    "They were here already, with the same content."
    kept: tuple[str, ...] = ()
    "They are here with another content, and were left as they are."
    refused: tuple[str, ...] = ()
    "They lead out of their folder, or are no files."


def fetch(
    far: Transport, folder: str, to: Path, patterns: Sequence[str] = (), *, overwrite: bool = False
) -> Fetched:
    """Bring what a job made in `folder` into the folder `to`, which is made if need be.

    Args:
        far: where the job ran.
        folder: the job's folder there.
        to: the folder here.
        patterns: only files of these names, or in folders of these names, as `find -path` reads them.
        overwrite: replace what is here with another content.

    Raises:
        TransferFailed, CommandFailed, ConnectionFailed: not everything came; nothing was changed here.
    """
    to.mkdir(parents=True, exist_ok=True)
    parts = far.stream(["sh", "-c", _PACK, "fetch", folder, *_tests(patterns)], timeout=SILENCE)
    with tempfile.TemporaryDirectory(dir=to, prefix=".slurmgen-fetch-") as name:
        staging = Path(name)
        try:
            refused = _unpack(parts, staging)
        except (tarfile.TarError, EOFError) as error:
            raise TransferFailed(f"what came from {far.where} is no archive: {error}", "Try again.") from None
        except CommandFailed as error:
            raise TransferFailed(f"{folder} could not be fetched: {error.fact}", error.hint) from None
        placed = {
            path: _place(staging / path, to / path, to, overwrite=overwrite) for path in _files(staging)
        }
    kinds = {
        kind: tuple(sorted(p for p, k in placed.items() if k == kind)) for kind in ("new", "same", "kept")
    }
    return Fetched(**kinds, refused=refused)


def _tests(patterns: Sequence[str]) -> list[str]:
    """What `find` is to look at."""
    pruned = [word for name in sorted(NEVER_SENT) for word in ("-name", name, "-o")][:-1]
    wanted = [word for one in patterns for word in ("-path", f"./{one}", "-o", "-path", f"./{one}/*", "-o")][
        :-1
    ]
    only = ["(", *wanted, ")"] if wanted else []
    return ["(", *pruned, ")", "-prune", "-o", "!", "-type", "d", *only]


class _Stream:
    """Parts of bytes as the file that tarfile reads, from behind the mark on."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._ready = b""
        while _MARK not in self._ready and (part := next(parts, b"")):
            self._ready += part  # what a profile printed
        self._ready = self._ready.partition(_MARK)[2]

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        part = self._ready or next(self._parts, b"")
        self._ready = part[size:]
        return part[:size]


def _unpack(parts: Iterator[bytes], staging: Path) -> tuple[str, ...]:
    """Unpack into a new folder; gives the names that do not belong in one.

    Links are made last, so that no file goes through one.
    """
    refused, links = [], []
    with tarfile.open(fileobj=_Stream(parts), mode="r|") as archive:  # type: ignore[call-overload]
        for member in archive:
            try:
                found = tarfile.data_filter(member, str(staging))
                if found.issym():
                    links.append(found)
                else:
                    archive.extract(found, staging, filter="data")
            except (tarfile.FilterError, KeyError, FileExistsError, NotADirectoryError, IsADirectoryError):
                refused.append(member.name)
    for _ in parts:  # whether all went well is told at the end
        pass
    return tuple(refused + [link.name for link in links if not _linked(link, staging)])


def _linked(link: tarfile.TarInfo, staging: Path) -> bool:
    path = staging / link.name
    if not path.parent.resolve().is_relative_to(staging.resolve()):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(link.linkname)
    except OSError:
        return False
    return True


def _files(staging: Path) -> list[str]:
    found = []
    for folder, names, files in os.walk(staging):
        links = [name for name in names if Path(folder, name).is_symlink()]
        found += [os.path.relpath(Path(folder, name), staging) for name in (*files, *links)]
    return found


def _place(fetched: Path, path: Path, to: Path, *, overwrite: bool) -> str:
    """Put a file where it belongs, if nothing is lost by it."""
    if not path.parent.resolve().is_relative_to(to.resolve()):  # a link of yours leads elsewhere
        return "kept"
    if os.path.lexists(path):
        if _same(fetched, path):
            return "same"
        if not overwrite or (path.is_dir() and not path.is_symlink()):
            return "kept"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fetched.replace(path)  # a link of yours itself, not where it leads
    except FileExistsError:  # a file of yours where the job made a folder
        return "kept"
    return "new"


def _same(one: Path, two: Path) -> bool:
    if one.is_symlink() or two.is_symlink():
        return one.is_symlink() and two.is_symlink() and one.readlink() == two.readlink()
    return two.is_file() and filecmp.cmp(one, two, shallow=False)
