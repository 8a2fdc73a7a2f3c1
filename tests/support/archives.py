"""Archives as a login node may send them, and the transport that sends them."""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from slurmgen.errors import CommandFailed
from slurmgen.results.fetch import Results, fetch

Fields = dict[str, Any]
LINK: Fields = {"type": tarfile.SYMTYPE}
HARD_LINK: Fields = {"type": tarfile.LNKTYPE}
FILES = (*tarfile.REGULAR_TYPES[:3], b"Z")
"Types of members that have content; the last is unknown to tar."
FOLDER: Fields = {"type": tarfile.DIRTYPE}


class Sender:
    """A login node that sends any bytes."""

    where = "far"

    def __init__(self, *parts: bytes, fails: bool = False, endless: Iterable[bytes] = ()) -> None:
        self.parts, self.fails, self.endless = parts, fails, endless

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        yield from self.parts
        yield from self.endless
        if self.fails:
            raise CommandFailed("tar failed")


def fetched(data: bytes, to: Path, **options: Any) -> Results:
    """The result of `fetch` for an archive."""
    return fetch(Sender(data), "/f", to, **options)  # type: ignore[arg-type]


def archive(*members: tuple[str, Fields], data: bytes = b"evil", form: int = tarfile.GNU_FORMAT) -> bytes:
    """An archive of members by name; files have `data` in them."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, errors="surrogateescape") as made:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(data) if fields.get("type", b"Z") in FILES else 0
            for key, value in fields.items():
                setattr(info, key, value)
            made.addfile(info, io.BytesIO(data) if info.size else None)
    return file.getvalue()


def header(size: int = 0, kind: bytes = tarfile.REGTYPE, name: str = "x") -> bytes:
    """Only the header of a member."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(folder: Path, *options: str) -> bytes:
    """The archive of a folder by GNU tar."""
    command = ["tar", "-c", *options, "-f", "-", "-C", str(folder), "."]
    return subprocess.run(command, check=True, capture_output=True).stdout


def contents(folder: Path, *, without: Path | None = None) -> dict[str, tuple[int, object]]:
    """Everything in a folder and the folder itself: type, mode, and content or target."""
    found: dict[str, tuple[int, object]] = {".": (folder.stat().st_mode, None)}
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(above, name) != without]
        for name in (*folders, *files):
            path = Path(above, name)
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, _content(path))
    return found


def _content(path: Path) -> object:
    if path.is_symlink():
        return str(path.readlink())
    return path.read_bytes() if path.is_file() else None


def outside_links(folder: Path) -> list[Path]:
    """The links in a folder that lead out of it."""
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    return [path for path in links if not Path(_end(path)).is_relative_to(folder)]


def _end(link: Path) -> str:
    """The target of a link. The kernel also follows one that is too long for `realpath`."""
    try:
        opened = os.open(link, os.O_PATH)
    except OSError:  # nothing is there
        return os.path.realpath(link)
    try:
        return str(Path(f"/proc/self/fd/{opened}").readlink())
    finally:
        os.close(opened)
