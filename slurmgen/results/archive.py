"""Read a job's files from a stream that an untrusted host sends."""

import os
import sys
import tarfile
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from slurmgen.sync.files import NEVER_SENT

MAX_REST = 1 << 20
"Bytes that may follow the end of an archive."
SILENCE = 120.0
"Seconds without progress after which the remote host counts as hung."
PROGRESS = 512
"Bytes that must arrive in that time."


class BadArchive(Exception):
    """What arrived is not an archive, or not one that tar would write."""


class ByteStream:
    """The output of a remote command. What has been read is not kept."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._since, self._arrived = time.monotonic(), 0
        self._part, self._at = b"", 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes.

        Raises:
            BadArchive: there are fewer.
        """
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, as they arrive.

        Raises:
            BadArchive: there are fewer.
        """
        while size:
            if self._at == len(self._part) and not self._next():
                raise BadArchive("it ends early")
            piece = self._part[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def finish(self) -> None:
        """Read to the end: only there does the transport report whether the command failed.

        Raises:
            BadArchive: much follows.
        """
        rest = len(self._part) - self._at
        while self._next():
            rest += len(self._part)
            if rest > MAX_REST:
                raise BadArchive("much follows its end")

    def _next(self) -> bytes:
        """The next part that is not empty; nothing at the end."""
        self._part, self._at = b"", 0
        for part in self._parts:
            self._require_progress(len(part))
            if part:
                self._part = part
                break
        return self._part

    def _require_progress(self, arrived: int) -> None:
        """Raise BadArchive if almost nothing arrives: a byte now and then does not count as progress."""
        now = time.monotonic()
        self._arrived += arrived
        if now - self._since < SILENCE:
            return
        if self._arrived < PROGRESS:
            raise BadArchive(f"only {self._arrived} bytes of it came in {now - self._since:.0f} seconds")
        self._since, self._arrived = now, 0


MAX_EXTENSION = 1 << 20
"Bytes of a long name, which precedes its member."
MAX_NAMES = 1 << 28
"Bytes of all names together."
_LEAST = 64
"Bytes that a header counts for at least, so that their number is limited as well."

Kind = Literal["file", "folder", "symlink", "hard link", "other"]
_WITHOUT_CONTENT: dict[bytes, Kind] = {
    tarfile.LNKTYPE: "hard link",
    tarfile.SYMTYPE: "symlink",
    tarfile.CHRTYPE: "other",
    tarfile.BLKTYPE: "other",
    tarfile.DIRTYPE: "folder",
    tarfile.FIFOTYPE: "other",
}
_LONG = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
# `fetch` asks tar for neither: --format=gnu has no pax headers, and without --sparse a hole is sent as zeros.
_FOREIGN = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE}
_MAX_SIZE = 1 << 62
_NAMES = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


class Member(Struct, frozen=True):
    """A file, folder or link, as the archive describes it."""

    name: str
    kind: Kind
    target: str = ""
    "Where a link leads."
    mode: int = 0
    mtime: float = 0
    size: int = 0
    "Bytes of the file."


Content = Iterator[bytes]
"The pieces of a file."


def members(stream: ByteStream) -> Iterator[tuple[Member, Content]]:
    """The members of an archive in the format of GNU tar, each with its content.

    The content can be read until the next member is requested.

    Raises:
        BadArchive: it is malformed, or its headers are too long.
    """
    room = MAX_NAMES
    long: dict[bytes, str] = {}
    while any(block := stream.read(tarfile.BLOCKSIZE)):
        header = _header(block)
        room -= _size_of_names(header)
        if room < 0:
            raise BadArchive("its names are too long")
        if header.type in _LONG:
            long[header.type] = os.fsdecode(stream.read(header.size).partition(b"\0")[0])
            stream.read(_padding(header.size))
            continue
        member = _member(header, long)
        content = stream.pieces(member.size)
        yield member, content
        for _ in content:
            pass
        stream.read(_padding(member.size))
        long = {}
    stream.finish()


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, *_NAMES)
    except (tarfile.HeaderError, ValueError) as error:
        raise BadArchive(f"{error}") from None
    if not 0 <= header.size <= _MAX_SIZE:
        raise BadArchive(f"a size is {header.size}")
    if header.type in _FOREIGN:
        raise BadArchive("it is not in the format that was asked for")
    return header


def _size_of_names(header: tarfile.TarInfo) -> int:
    if header.type not in _LONG:
        return _LEAST + len(header.name) + len(header.linkname)
    if header.size > MAX_EXTENSION:
        raise BadArchive(f"a header has {header.size} bytes")
    return _LEAST + header.size


def _member(header: tarfile.TarInfo, long: Mapping[bytes, str]) -> Member:
    kind = _WITHOUT_CONTENT.get(header.type)
    return Member(
        name=long.get(tarfile.GNUTYPE_LONGNAME) or header.name,
        kind=kind or ("file" if header.isreg() else "other"),
        target=long.get(tarfile.GNUTYPE_LONGLINK) or header.linkname,
        mode=header.mode,
        mtime=header.mtime,
        size=0 if kind else header.size,
    )


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE


NEVER_FETCHED = NEVER_SENT | {
    ".hg",
    ".sl",
    ".svn",
    ".bzr",
    ".jj",
    ".pijul",
    "_darcs",
    ".fslckout",
    "_fossil_",
}
"Files that a shell prompt may read in the current folder. They may hold commands."
MAX_DEPTH = 100
"Parts of a path."


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path, without the empty ones and dots.

    >>> parts_of("./out//model.pt")
    ('out', 'model.pt')
    """
    return tuple(part for part in path.split("/") if part not in ("", "."))


def refusal(name: str) -> str | None:
    """Why no file or link of this name is fetched; None if it may be.

    >>> refusal("out/.GIT/config")
    '.git is never fetched'
    """
    parts = parts_of(name)
    if name.startswith("/") or ".." in parts:
        return "it leads out of the folder"
    if not parts or "\0" in name:
        return "it has no valid name"
    if len(parts) > MAX_DEPTH:
        return f"its path has more than {MAX_DEPTH} parts"
    if _folded(parts[-1]) == "head":
        return "a file HEAD can make a Git repository of its folder"
    return reserved(parts)


def reserved(parts: Sequence[str]) -> str | None:
    """Why no path with these parts is fetched; None if it may be."""
    names = (_folded(part) for part in parts)
    return next((f"{name} is never fetched" for name in names if name in NEVER_FETCHED), None)


def _folded(part: str) -> str:
    """A name as it is compared where case and characters without width do not count, as on macOS."""
    if part.isascii():  # nearly all are; what follows takes ten times as long
        return part.lower()
    letters = unicodedata.normalize("NFKC", part)
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf").casefold()
