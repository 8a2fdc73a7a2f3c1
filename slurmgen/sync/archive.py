"""The tar stream that a snapshot is sent in. Its last member names the snapshot, so it shows the end."""

import logging
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from slurmgen.errors import TransferFailed
from slurmgen.sync.files import readable
from slurmgen.sync.manifest import Entry, Manifest
from slurmgen.text import visible

COMPLETE = ".slurmgen/complete"
"The last member; a project has no files of that name, since .slurmgen is never sent."
_CHUNK = 1 << 20
_log = logging.getLogger(__name__)


def pack(files: Mapping[str, Path], content: Manifest, names: Iterable[str]) -> Iterator[bytes]:
    """A tar archive of the files `names`, in parts of a megabyte or two, without their owners.

    Raises:
        TransferFailed: a file cannot be read, or is not what `content` says any more.
    """
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


def _members(files: Mapping[str, Path], content: Manifest, names: Iterable[str]) -> Iterator[bytes]:
    for name in names:
        entry = content.entries[name]
        if entry.mode < 0:
            yield _header(name, mode=0o777, type=tarfile.SYMTYPE, linkname=entry.content)
        else:
            yield from _file(name, files[name], entry)
    mark = content.hash.encode()
    yield _header(COMPLETE, mode=0o600, size=len(mark)) + mark + bytes(-len(mark) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(name: str, path: Path, entry: Entry) -> Iterator[bytes]:
    with readable(), path.open("rb", buffering=0) as file:
        mtime = int(os.fstat(file.fileno()).st_mtime)
        yield _header(name, mode=entry.mode, size=entry.size, mtime=mtime)
        total, left = sha256(), entry.size
        while left and (chunk := file.read(min(left, _CHUNK))):
            total.update(chunk)
            left -= len(chunk)
            yield chunk
        if left or total.hexdigest() != entry.content:
            raise TransferFailed(
                f"{visible(str(path))} changed while it was sent",
                "Submit again when it no longer changes, or name it in .slurmgenignore.",
            )
        if file.read(1):  # what was sent is still what was hashed
            _log.warning(
                "%s grew while it was sent; the job has its first %d bytes", visible(name), entry.size
            )
    yield bytes(-entry.size % tarfile.BLOCKSIZE)


def _header(name: str, **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    # GNU's format stores the bytes of a name as they are; every tar on a cluster reads it.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
