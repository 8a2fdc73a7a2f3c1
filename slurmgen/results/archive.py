"""Read a job's files from a stream that an untrusted host sends."""

import os
import re
import sys
import tarfile
import time
import unicodedata
from collections.abc import Iterator, Sequence
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


MAX_LIST = 1 << 20
"Bytes of the list of parts."

Extents = tuple[tuple[int, int], ...]
"The parts of a file that are stored: offset and size of each."

_DECIMAL = re.compile(rb"\d{1,19}")
_OCTAL = re.compile(rb" *([0-7]{1,12})[ \0]*")
_FIELD = 12
"Bytes of a number in a header; a part has two."


def decimal(text: bytes) -> int:
    """A number of a pax header.

    Raises:
        BadArchive: it is not a number, or larger than a file can be.
    """
    if not _DECIMAL.fullmatch(text):
        raise BadArchive(f"{text[:40]!r} is not a size")
    return int(text)


def gnu(header: bytes, stream: ByteStream, stored: int) -> tuple[int, Extents]:
    """Size and parts of a file whose parts are listed in the header and in blocks behind it.

    Raises:
        BadArchive: the list is malformed, or does not add up to the bytes that are stored.
    """
    size, parts = _number(header[483:495]), [*_parts(header[386:482])]
    more, length = header[482], 0
    while more:
        length = _longer(length)
        block = stream.read(tarfile.BLOCKSIZE)
        parts += _parts(block[:504])
        more = block[504]
    return size, _checked(parts, size, stored)


def pax(size: int, stream: ByteStream, stored: int) -> Extents:
    """The parts of a file whose content begins with their list, one number a line (GNU.sparse 1.0).

    Raises:
        BadArchive: the list is malformed, or does not add up to the bytes that are stored.
    """
    lines: list[bytes] = []
    rest, length, wanted = b"", 0, 1
    while len(lines) < wanted:
        length = _longer(length)
        *whole, rest = (rest + stream.read(tarfile.BLOCKSIZE)).split(b"\n")
        lines += whole
        wanted = 1 + 2 * decimal(lines[0]) if lines else 1
    numbers = [decimal(line) for line in lines[1:wanted]]
    return _checked([*zip(numbers[::2], numbers[1::2], strict=True)], size, stored - length)


def _longer(length: int) -> int:
    if length + tarfile.BLOCKSIZE > MAX_LIST:
        raise BadArchive("a sparse file has too many parts")
    return length + tarfile.BLOCKSIZE


def _parts(fields: bytes) -> Iterator[tuple[int, int]]:
    for at in range(0, len(fields), 2 * _FIELD):
        offset, size = fields[at : at + _FIELD], fields[at + _FIELD : at + 2 * _FIELD]
        if not size[0]:
            return
        yield _number(offset), _number(size)


def _number(field: bytes) -> int:
    """A number of a header: octal digits, or binary after a byte 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if not (digits := _OCTAL.fullmatch(field)):
        raise BadArchive("a number of a sparse file is malformed")
    return int(digits[1], 8)


def _checked(parts: Sequence[tuple[int, int]], size: int, stored: int) -> Extents:
    ends = [0, *(offset + length for offset, length in parts)]
    is_ordered = all(end <= offset for end, (offset, _) in zip(ends[:-1], parts, strict=True))
    if not is_ordered or ends[-1] > size or sum(length for _, length in parts) != stored:
        raise BadArchive("the parts of a sparse file do not fit together")
    return tuple(parts)


MAX_EXTENSION = 1 << 20
"Bytes of the header that precedes a member with a long name or other attributes."
MAX_NAMES = 1 << 28
"Bytes of all names and attributes together."
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
_LONG = {tarfile.GNUTYPE_LONGNAME: b"path", tarfile.GNUTYPE_LONGLINK: b"linkpath"}
_PAX = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE}
_EXTENSIONS = {*_LONG, *_PAX, tarfile.XGLTYPE}
_KEYWORDS = {
    *(b"path", b"linkpath", b"size", b"mtime"),
    *(b"GNU.sparse.major", b"GNU.sparse.name", b"GNU.sparse.realsize", b"GNU.sparse.size"),
}
_MAX_SIZE = 1 << 62
_LENGTH = re.compile(rb"(\d{1,7}) ")
_SECONDS = re.compile(rb"-?\d{1,19}(\.\d*)?")
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
    "Bytes of the file, holes included."


Attributes = dict[bytes, bytes]
"The attributes that an extension gives the next member, by the keywords of pax."
Content = Iterator[tuple[int, bytes]]
"Pieces of a file and where they belong; between them are holes."


def members(stream: ByteStream) -> Iterator[tuple[Member, Content]]:
    """The members of an archive, each with its content, which can be read until the next is requested.

    Raises:
        BadArchive: it is malformed, or its headers are too long.
    """
    room = MAX_NAMES
    attributes: Attributes = {}
    while any(block := stream.read(tarfile.BLOCKSIZE)):
        header = _header(block)
        room -= _size_of_names(header)
        if room < 0:
            raise BadArchive("its names are too long")
        if header.type in _EXTENSIONS:
            attributes |= _attributes(header, stream)
            continue
        member, extents = _member(header, block, attributes, stream)
        content = _content(stream, extents)
        yield member, content
        for _ in content:
            pass
        stream.read(_padding(sum(size for _, size in extents)))
        attributes = {}
    stream.finish()


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, *_NAMES)
    except (tarfile.HeaderError, ValueError) as error:
        raise BadArchive(f"{error}") from None
    if header.size < 0:
        raise BadArchive(f"a size is {header.size}")
    return header


def _size_of_names(header: tarfile.TarInfo) -> int:
    if header.type not in _EXTENSIONS:
        return _LEAST + len(header.name) + len(header.linkname)
    if header.size > MAX_EXTENSION:
        raise BadArchive(f"a header has {header.size} bytes")
    return _LEAST + header.size


def _attributes(header: tarfile.TarInfo, stream: ByteStream) -> Attributes:
    text = stream.read(header.size)
    stream.read(_padding(header.size))
    if header.type in _LONG:
        return {_LONG[header.type]: text.partition(b"\0")[0]}
    records = _records(text) if header.type in _PAX else ()
    return {keyword: value for keyword, value in records if keyword in _KEYWORDS}


def _records(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records of a pax header, each `LENGTH KEYWORD=VALUE` and a line feed."""
    at = 0
    while at < len(text):
        length = _LENGTH.match(text, at)
        end = at + int(length[1]) if length else at
        if not length or not length.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise BadArchive("a pax record is malformed")
        keyword, _, value = text[length.end() : end - 1].partition(b"=")
        yield keyword, value
        at = end


def _member(
    header: tarfile.TarInfo, block: bytes, attributes: Attributes, stream: ByteStream
) -> tuple[Member, Extents]:
    given = {keyword: value for keyword, value in attributes.items() if value}
    size, extents = _size(header, block, given, stream)
    if size > _MAX_SIZE:
        raise BadArchive(f"a file has {size} bytes")
    name = given.get(b"GNU.sparse.name") or given.get(b"path")
    target = given.get(b"linkpath")
    member = Member(
        name=os.fsdecode(name) if name else header.name,
        kind=_kind(header, given),
        target=os.fsdecode(target) if target else header.linkname,
        mode=header.mode,
        mtime=_seconds(given[b"mtime"]) if b"mtime" in given else header.mtime,
        size=size,
    )
    return member, extents


def _kind(header: tarfile.TarInfo, given: Attributes) -> Kind:
    if b"GNU.sparse.size" in given:  # a form before 1.0, which tar writes only if asked to
        return "other"
    return _WITHOUT_CONTENT.get(header.type) or ("file" if header.isreg() else "other")


def _size(
    header: tarfile.TarInfo, block: bytes, given: Attributes, stream: ByteStream
) -> tuple[int, Extents]:
    """The bytes of a file, and which parts of it follow in the archive."""
    if header.type in _WITHOUT_CONTENT:
        return 0, ()
    stored = decimal(given[b"size"]) if b"size" in given else header.size
    if header.type == tarfile.GNUTYPE_SPARSE:
        return gnu(block, stream, stored)
    if given.get(b"GNU.sparse.major") == b"1":
        size = decimal(given.get(b"GNU.sparse.realsize", b""))
        return size, pax(size, stream, stored)
    return stored, ((0, stored),)


def _seconds(text: bytes) -> float:
    if not _SECONDS.fullmatch(text):
        raise BadArchive(f"{text[:40]!r} is not a time")
    return float(text)


def _content(stream: ByteStream, extents: Extents) -> Content:
    for at, size in extents:
        for piece in stream.pieces(size):
            yield at, piece
            at += len(piece)


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
