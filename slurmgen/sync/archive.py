"""The tar stream that a snapshot is sent in. Its last member names the snapshot, so it shows the end."""

import logging
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from slurmgen.errors import TransferFailed
from slurmgen.sync.files import readable
from slurmgen.sync.manifest import Entry, Manifest
from slurmgen.text import visible

COMPLETE = ".slurmgen/complete"
"The last member; a project has no files of that name, since .slurmgen is never sent."
_CHUNK = 1 << 20
_log = logging.getLogger(__name__)


def pack(files: Mapping[str, str], content: Manifest, names: Iterable[str]) -> Iterator[bytes]:
    """A tar archive of the files `names`, in parts of a megabyte or two, without their owners.

    Raises:
        TransferFailed: a file cannot be read, or is not what `content` says any more.
    """
    with readable():
        yield from _joined(_members(files, content, names))


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer parts: each of them is a system call, here and in ssh."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= _CHUNK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _members(files: Mapping[str, str], content: Manifest, names: Iterable[str]) -> Iterator[bytes]:
    for name in names:
        entry = content.entries[name]
        if entry.mode < 0:
            yield _header(name, mode=0o777, type=tarfile.SYMTYPE, linkname=entry.content)
        else:
            yield from _file(name, files[name], entry)
    mark = content.hash.encode()
    yield _header(COMPLETE, mode=0o600, size=len(mark)) + mark + bytes(-len(mark) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(name: str, path: str, entry: Entry) -> Iterator[bytes]:
    # By descriptors, as in manifest.hash_of: a file object would cost more than the content of a small file.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _file_header(name, entry, int(os.fstat(file).st_mtime))
        total, left, grew = sha256(), entry.size, False
        # One byte more than the file should have: a shorter reply then shows its end.
        while chunk := os.read(file, wanted := min(left + 1, _CHUNK)):
            grew, is_last = len(chunk) > left, len(chunk) < wanted
            chunk = chunk[:left]
            total.update(chunk)
            left -= len(chunk)
            yield chunk
            if grew or (left == 0 and is_last):
                break
        if left or total.hexdigest() != entry.content:
            raise TransferFailed(
                f"{visible(path)} changed while it was sent",
                "Submit again when it no longer changes, or name it in .slurmgenignore.",
            )
        if grew:  # what was sent is still what was hashed
            _log.warning(
                "%s grew while it was sent; the job has its first %d bytes", visible(name), entry.size
            )
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(file)
    yield bytes(-entry.size % tarfile.BLOCKSIZE)


_FIELDS, _REST = b"%07o\0%07o\0%07o\0%011o\0%011o\0", b"0" + bytes(100) + b"ustar  \0" + bytes(247)
_SUM = sum(_REST) + 8 * ord(" ")
"Of the constant bytes of a header; while they are added, its checksum is blank."


def _file_header(name: str, entry: Entry, mtime: int) -> bytes:
    """The header of a regular file. tarfile, which is slower than reading a small file, makes rare ones."""
    encoded = os.fsencode(name)
    if len(encoded) > tarfile.LENGTH_NAME or entry.size >= 8**11 or not 0 <= mtime < 8**11:
        return _header(name, mode=entry.mode, size=entry.size, mtime=mtime)
    start = encoded.ljust(tarfile.LENGTH_NAME, b"\0") + _FIELDS % (entry.mode, 0, 0, entry.size, mtime)
    return b"%b%06o\0 %b" % (start, sum(start) + _SUM, _REST)


def _header(name: str, **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    # GNU's format stores the bytes of a name as they are; every tar on a cluster reads it.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
