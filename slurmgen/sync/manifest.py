"""The list of files that are sent, and the archive of those that the host lacks."""

import logging
import os
import re
import stat
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from slurmgen.errors import RequestError, TransferFailed
from slurmgen.files import make_private, require_private
from slurmgen.sync.files import Snapshot, by_bytes, link_target, readable
from slurmgen.text import plain, visible

COMPLETE = ".slurmgen/complete"
"The last member; a project has no files of that name, since .slurmgen is never sent."
_CHUNK = 1 << 20
_log = logging.getLogger(__name__)


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One file or link."""

    mode: int
    "-1 for a link."
    size: int
    content: str
    "The hash of a file; the target of a link."


class Manifest(Struct, frozen=True, dict=True):
    """A project's content by name."""

    entries: dict[str, Entry]

    @classmethod
    def stored(cls, name: str) -> "Manifest":
        """Content that only the remote host has, by its hash; its entries are not known."""
        content = cls({})
        content.__dict__["hash"] = name
        return content

    @cached_property
    def hash(self) -> str:
        """The name of this content: the same for the same names, modes and contents."""
        total = sha256()
        for name in by_bytes(self.entries):
            entry = self.entries[name]
            total.update(os.fsencode(f"{name}\0{entry.mode:o}\0{entry.content}\0"))
        return total.hexdigest()

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(entry.size for entry in self.entries.values())

    def changed_since(self, base: "Manifest") -> list[str]:
        """The names whose entry is not in `base`."""
        return [name for name, entry in self.entries.items() if base.entries.get(name) != entry]

    def gone_since(self, base: "Manifest") -> list[str]:
        """The names in `base`, folders included, that no longer exist; a folder before its content."""
        names = base.entries.keys() - self.entries.keys()
        return sorted(names | (base.folders() - self.folders()), key=os.fsencode)

    def folders(self) -> set[str]:
        """The folders of all names."""
        found: set[str] = set()
        for name in self.entries:
            while (name := name.rpartition("/")[0]) and name not in found:
                found.add(name)
        return found


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


RACY = 2_000_000_000
"""Nanoseconds: a file that changed so shortly before it was hashed is hashed anew next time.

It may have changed again within one tick of its file system's clock, which stat does not show; git
calls that racy (https://git-scm.com/docs/racy-git). Two seconds are the coarsest clock, FAT's.
"""
_KEPT = 64
"Manifests in the cache: those sent last."
_COMPARED = 4
"Snapshots among which the nearest is chosen: those used last."
_NEAR = 100_000
"Bytes to send that are so few that no other snapshot is looked at."

_HASH = re.compile("[0-9a-f]{64}")


class _Seen(Struct, frozen=True, array_like=True, gc=False):
    """The status of a file when it was hashed."""

    size: int
    mtime: int
    ctime: int
    inode: int
    content: str


def manifest(
    files: Snapshot, cache: Path | None = None, statuses: Mapping[str, os.stat_result] | None = None
) -> Manifest:
    """The manifest of some files.

    Args:
        cache: a file that keeps hashes for the next call.
        statuses: the result of `files.statuses()`, if it is known already.

    Raises:
        TransferFailed: a file cannot be read.
    """
    known = _load(cache)
    entries, seen = {}, {}
    with readable():
        for name, status in (files.statuses() if statuses is None else statuses).items():
            path = files.files[name]
            if stat.S_ISLNK(status.st_mode):
                entries[name] = Entry(-1, 0, link_target(Path(path)))
                continue
            seen[name] = file = _seen(path, status, known.get(name))
            entries[name] = Entry(stat.S_IMODE(status.st_mode) & 0o777, file.size, file.content)
    if cache and seen != known:
        _save(cache, seen)
    return Manifest(entries)


def _seen(path: str, status: os.stat_result, known: _Seen | None) -> _Seen:
    facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if known and (known.size, known.mtime, known.ctime, known.inode) == facts:
        return known
    begun = time.time_ns()
    size, content = hash_of(path, status.st_size)
    if max(status.st_mtime_ns, status.st_ctime_ns) > begun - RACY:
        facts = (size, 0, 0, 0)  # matches nothing, so that it is hashed anew
    return _Seen(size, *facts[1:], content)


def hash_of(path: str, expected: int) -> tuple[int, str]:
    """A file's size as read, and the hash of that; one small read is enough if it has the `expected` size."""
    total, size = sha256(), 0
    file = os.open(path, os.O_RDONLY)  # with many small files, file objects would take a third of the time
    try:
        while chunk := os.read(file, _CHUNK):
            total.update(chunk)
            size += len(chunk)
            if size == expected and len(chunk) < _CHUNK:
                break
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(file)
    return size, total.hexdigest()


def _load(cache: Path | None) -> dict[str, _Seen]:
    try:
        return msgspec.msgpack.decode(_private(cache), type=dict[str, _Seen]) if cache else {}
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return {}


def _private(path: Path) -> bytes:
    """A file of the cache, in which another user could claim any content for a file."""
    require_private(path)
    return path.read_bytes()


def _save(path: Path, value: object) -> None:
    """Write a file of the cache atomically. An error is ignored: the cache only saves time."""
    try:
        data = msgspec.msgpack.encode(value)
        make_private(path.parent)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_bytes(data)
        new.replace(path)
    except (OSError, UnicodeError):
        return


class Sent:
    """The manifests of earlier submissions, so that the next one sends only what changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, sent: Manifest) -> None:
        """Add one, and remove the oldest."""
        _save(self.folder / sent.hash, sent)
        try:
            kept = sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[_KEPT:]:
                path.unlink()
        except OSError:  # another slurmgen removed it first
            return

    def names(self) -> list[str]:
        """Their hashes, the last sent first."""
        try:
            found = {path.name: path.stat().st_mtime for path in self.folder.iterdir()}
        except OSError:  # nothing was sent yet, or another slurmgen is removing one
            return []
        return sorted((name for name in found if _HASH.fullmatch(name)), key=lambda name: -found[name])

    def best(self, new: Manifest, snapshots: Iterable[str]) -> tuple[str, Manifest] | None:
        """Of these snapshots, the one with which least has to be sent; None if no manifest is known."""
        loaded = ((name, self._load(name)) for name in snapshots)
        nearest: list[tuple[int, str, Manifest]] = []
        for name, found in islice(((name, found) for name, found in loaded if found), _COMPARED):
            nearest.append((_bytes(new, found), name, found))
            if nearest[-1][0] <= _NEAR:
                break
        nearest.sort(key=itemgetter(0))
        return next(((name, found) for _, name, found in nearest if found.hash == name), None)

    def _load(self, name: str) -> Manifest | None:
        if not _HASH.fullmatch(name):  # the name comes from the remote host
            return None
        try:
            return msgspec.msgpack.decode(_private(self.folder / name), type=Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None


def _bytes(new: Manifest, base: Manifest) -> int:
    return sum(new.entries[name].size for name in new.changed_since(base))


class Parcel(Struct, frozen=True):
    """The part of a project that is sent."""

    base: str
    """The remote snapshot that it is based on; `-` for none, `?` to send nothing and list the snapshots."""
    gone: tuple[str, ...] = ()
    "Names in the base that the project does not have, or has with another content."
    names: tuple[str, ...] = ()
    "Of the files that are sent."


def expected(content: Manifest, sent: Sent) -> Parcel:
    """The parcel to send first, by the earlier submissions from this machine.

    If the remote host has the snapshot already, it reads none of the parcel.
    """
    known = sent.names()
    return Parcel("?") if content.hash in known else difference(content, sent, known)


def difference(content: Manifest, sent: Sent, snapshots: list[str]) -> Parcel:
    """The parcel that is based on the nearest of these remote snapshots."""
    best = sent.best(content, snapshots)
    if best is None:
        return Parcel("-", names=tuple(content.entries))
    name, base = best
    changed = content.changed_since(base)
    # Changed files are removed first: snapshots share files, so none is ever written in place.
    gone = base.entries.keys() & changed | set(content.gone_since(base))
    return Parcel(name, tuple(sorted(gone, key=os.fsencode)), tuple(changed))


# In the path of a log, folder included, Slurm fills in %j and takes a backslash away.
_UNFIT = re.compile(r"[%\\\x00-\x1f\x7f]")


def parent_folder(remote_dir: str, project: str) -> str:
    """The remote folder of a project; a path without a leading slash is relative to the remote home.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    return rooted(f"{remote_folder(remote_dir)}/{plain(project) or 'project'}")


def remote_folder(remote_dir: str) -> str:
    """The folder of all projects, as a path that no program takes for anything else.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    if _UNFIT.search(remote_dir):
        raise RequestError(
            f"the remote folder {remote_dir!r} has a %, a backslash or a control character",
            "Slurm reads those in the path of a log; give another with --remote-dir.",
        )
    return rooted(remote_dir.removeprefix("~/").rstrip("/"))


def rooted(path: str) -> str:
    """The same path, written so that it is neither an option nor looked up in CDPATH."""
    return path if path.startswith("/") or not path else f"./{path.removeprefix('./')}"
