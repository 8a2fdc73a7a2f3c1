"""The tar stream that a snapshot is sent in. Its end says that it is whole, and which snapshot it makes."""

import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from slurmgen.errors import TransferFailed
from slurmgen.sync.files import readable
from slurmgen.sync.manifest import Manifest
from slurmgen.text import visible

COMPLETE = ".slurmgen/complete"
"The last member; a project has no files of that name, since .slurmgen is never sent."
_CHUNK = 1 << 20
# A header is name, mode, owner, size, time, checksum and what follows; its checksum counts as blanks.
_NOBODY = b"0000000\0" * 2
_AFTER = b"0" + bytes(100) + tarfile.GNU_MAGIC + bytes(247)
_SUM = sum(_AFTER) + sum(b" " * 8)
_OCTAL = 8**11
"What a number must be below."


def pack(files: Mapping[str, Path], content: Manifest, names: Iterable[str]) -> Iterator[bytes]:
    """A tar archive of the files `names`, in parts of a megabyte or two.

    The owner is left out and the mode kept.

    Raises:
        TransferFailed: a file cannot be read, or is not what `content` says any more.
    """
    yield from _joined(_members(files, content, names))


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer parts: each of them is a call of the system, here and in ssh."""
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
            yield from _file(name, files[name], entry.mode, entry.size, entry.content)
    mark = content.hash.encode()
    yield _header(COMPLETE, mode=0o600, size=len(mark)) + mark + bytes(-len(mark) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(name: str, path: Path, mode: int, size: int, content: str) -> Iterator[bytes]:
    total = sha256()
    with readable(), open(path, "rb", buffering=0) as file:  # noqa: PTH123 (faster than Path.open)
        yield file_header(name, mode, size, int(os.fstat(file.fileno()).st_mtime))
        left = size
        while left and (chunk := file.read(min(left, _CHUNK))):
            total.update(chunk)
            left -= len(chunk)
            yield chunk
        if left or file.read(1) or total.hexdigest() != content:
            raise TransferFailed(
                f"{visible(str(path))} changed while it was sent", "Submit again when it is at rest."
            )
    yield bytes(-size % tarfile.BLOCKSIZE)


def file_header(name: str, mode: int, size: int, mtime: int) -> bytes:
    """What tarfile writes before a file, in a fifth of its time, which is most of a project's way out."""
    plain = name.encode(errors="surrogateescape")
    if len(plain) > tarfile.LENGTH_NAME or not 0 <= mtime < _OCTAL or size >= _OCTAL:
        return _header(name, mode=mode, size=size, mtime=mtime)
    before = b"%b%07o\0%b%011o\0%011o\0" % (plain.ljust(100, b"\0"), mode, _NOBODY, size, mtime)
    return b"%b%06o\0 %b" % (before, sum(before) + _SUM, _AFTER)


def _header(name: str, **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    # GNU's form carries a name's bytes as they are; every tar on a cluster reads it.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
