"""Staging: the members of an archive, in one empty folder, under numbers instead of their names.

So what an archive says of names, folders and links has no effect before all of it has arrived.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.jobs.results.archive_reader import Content, Member
from slurmgen.jobs.results.names import MAX_DEPTH, parts_of, refusal, reserved
from slurmgen.slurm.sizes import canonical

MAX_FILES = 1_000_000
"Members of an archive."
_MAX_TARGET = 4095
"Bytes of where a symlink leads, as Linux allows."
_LAST_TIME = 1 << 33
"Seconds since 1970, in the year 2242."


class Staged(Struct, frozen=True):
    """What an archive has, by the names in it."""

    files: dict[str, Path]
    "Where files and symlinks are staged."
    refused: dict[str, str]
    "Why others were left out."


def stage(members: Iterable[tuple[Member, Content]], folder: Path, max_size: int) -> Staged:
    """Write files and links into an empty folder that no other user may write to.

    Args:
        members: as `archive_reader.members` reads them.
        folder: where they are staged.
        max_size: bytes of all files together.

    Raises:
        RequestError: there are more files or bytes.
        BadArchive: the archive is malformed.
        OSError: a file cannot be written.
    """
    files: dict[str, Path] = {}
    refused: dict[str, str] = {}
    left = max_size
    for number, (member, content) in enumerate(members):
        left -= member.size
        _require_room(number, left, max_size)
        if member.kind == "folder":  # it is made for the files in it
            continue
        path = folder / str(number)
        if reason := refusal(member.name) or _write(member, content, path, files):
            refused[member.name.removeprefix("./")] = reason
        else:
            files["/".join(parts_of(member.name))] = path
    return Staged(files, refused)


def _require_room(number: int, left: int, max_size: int) -> None:
    if number >= MAX_FILES:
        raise RequestError(f"the job made more than {MAX_FILES:,} files", "Fetch some of them with --only.")
    if left < 0:
        most = canonical(-(-max_size >> 20))
        raise RequestError(
            f"the job made more than {most}", "Fetch some of it with --only, or allow more with --max-size."
        )


def _write(member: Member, content: Content, path: Path, files: Mapping[str, Path]) -> str | None:
    """Stage a member; returns why not."""
    match member.kind:
        case "file":
            _write_file(member, content, path)
            return None
        case "symlink":
            return _write_symlink(member.target, path)
        case "hard link":
            return _write_hard_link(files.get("/".join(parts_of(member.target))), path)
        case _:
            return "it is neither a file nor a link"


def _write_file(member: Member, content: Content, path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _mode(member.mode))
    with os.fdopen(descriptor, "wb") as file:
        for at, piece in content:
            file.seek(at)
            file.write(piece)
        file.truncate(member.size)  # it may end with a hole
        seconds = min(max(member.mtime, 0), _LAST_TIME)
        os.utime(descriptor, (seconds, seconds))


def _mode(mode: int) -> int:
    """Permissions without setuid, setgid and the right of others to write; the umask applies as well."""
    executable = 0o111 if mode & 0o100 else 0
    return mode & (0o644 | executable) | 0o600


def _write_symlink(target: str, path: Path) -> str | None:
    parts = parts_of(target)
    if not target or "\0" in target or len(os.fsencode(target)) > _MAX_TARGET or len(parts) > MAX_DEPTH:
        return "it leads nowhere"
    if reason := reserved(parts):
        return reason
    path.symlink_to(target)
    return None


def _write_hard_link(source: Path | None, path: Path) -> str | None:
    """Link to what is staged. A job may make hard links of symlinks: then the new one is a symlink."""
    if source is None:
        return "it is a hard link to a file that was not fetched"
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError as error:  # not every file system has hard links
        return f"no hard link can be made here: {error.strerror}"
    return None
