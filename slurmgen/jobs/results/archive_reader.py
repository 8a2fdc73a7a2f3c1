"""Reads a tar archive from a host that is not trusted, one member at a time. Writes nothing.

It reads the formats v7, ustar, gnu and pax, and sparse files. tarfile parses the 512 bytes of a header. Its
other parts are not used: they have no limits, and its extraction depends on the release of Python.
"""

import os
import re
import sys
import tarfile
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from slurmgen.jobs.results import sparse
from slurmgen.jobs.results.byte_stream import BadArchive, ByteStream

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
) -> tuple[Member, sparse.Extents]:
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
) -> tuple[int, sparse.Extents]:
    """The bytes of a file, and which parts of it follow in the archive."""
    if header.type in _WITHOUT_CONTENT:
        return 0, ()
    stored = sparse.decimal(given[b"size"]) if b"size" in given else header.size
    if header.type == tarfile.GNUTYPE_SPARSE:
        return sparse.gnu(block, stream, stored)
    if given.get(b"GNU.sparse.major") == b"1":
        size = sparse.decimal(given.get(b"GNU.sparse.realsize", b""))
        return size, sparse.pax(size, stream, stored)
    return stored, ((0, stored),)


def _seconds(text: bytes) -> float:
    if not _SECONDS.fullmatch(text):
        raise BadArchive(f"{text[:40]!r} is not a time")
    return float(text)


def _content(stream: ByteStream, extents: sparse.Extents) -> Content:
    for at, size in extents:
        for piece in stream.pieces(size):
            yield at, piece
            at += len(piece)


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
