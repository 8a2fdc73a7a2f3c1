"""The local folder of results: files arrive whole, and nothing else changes."""

import errno
import filecmp
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from slurmgen.errors import RequestError
from slurmgen.results.archive import MAX_DEPTH, Content, Member, parts_of, refusal, reserved
from slurmgen.slurm.units import canonical_size

Outcome = tuple[Literal["new", "same", "kept", "refused"], str]
"The outcome for a file, and the reason if it was refused."
_NEW: Outcome = ("new", "")
_SAME: Outcome = ("same", "")
_KEPT: Outcome = ("kept", "")

_MAX_PATH = 4095
"Bytes of a path, as Linux allows."
_MAX_LINKS = 8
"Links that a link may lead through."
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def place(files: Mapping[str, Path], to: Path, *, overwrite: bool) -> dict[str, Outcome]:
    """Move files and symlinks into a folder, symlinks last.

    Args:
        files: where each is staged, on the same file system, by its name in the folder.
        to: the folder, as an absolute path without links.
        overwrite: replace what has another content, though never a folder.
    """
    order = sorted(files, key=lambda name: (files[name].is_symlink(), name))
    top = os.open(to, _FOLDER)
    try:
        return {name: _outcome(files[name], name, to, top, overwrite=overwrite) for name in order}
    finally:
        os.close(top)


def leads_out(to: Path, name: str, target: str) -> bool:
    """Whether a symlink `name` in the folder `to` would lead out of it, now or when others are added to it.

    `..` counts only at its beginning and behind existing folders: behind a link, or a name that is missing
    still, it could lead elsewhere later.
    """
    try:
        _followed(to, parts_of(name)[:-1], target, iter(range(_MAX_LINKS)))
    except _LeadsOutError:
        return True
    return False


class _LeadsOutError(Exception):
    pass


def _followed(to: Path, start: Sequence[str], target: str, links: Iterator[int]) -> list[str]:
    """Where a target leads from the folder `start` in `to`, as far as that exists."""
    at, is_sure = list(start), True
    if target.startswith("/"):
        raise _LeadsOutError
    for part in parts_of(target):
        if part != "..":
            at.append(part)
            mode = _mode_of(to.joinpath(*at))
            if stat.S_ISLNK(mode):
                if next(links, None) is None:
                    raise _LeadsOutError
                at = _followed(to, at[:-1], str(to.joinpath(*at).readlink()), links)
            is_sure = is_sure and stat.S_ISDIR(mode)
        elif at and is_sure:
            at.pop()
        else:
            raise _LeadsOutError
    return at


def _mode_of(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _outcome(staged: Path, name: str, to: Path, top: int, *, overwrite: bool) -> Outcome:
    if len(os.fsencode(to / name)) > _MAX_PATH:
        return "refused", "its path is too long here"
    if staged.is_symlink() and leads_out(to, name, str(staged.readlink())):
        return "refused", "it leads out of the folder"
    *folders, last = parts_of(name)
    try:
        with _opened(top, folders) as folder:
            return _placed(staged, last, folder, to / name, overwrite=overwrite)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):  # a file or link of the user is in the way
            return _KEPT
        return "refused", error.strerror or str(error)


def _placed(staged: Path, last: str, folder: int, path: Path, *, overwrite: bool) -> Outcome:
    try:
        existing = os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        existing = None
    if existing and _is_same(staged, path, existing.st_mode):
        return _SAME
    if existing and (stat.S_ISDIR(existing.st_mode) or not overwrite):
        return _KEPT
    os.rename(staged, last, dst_dir_fd=folder)  # a link itself, not where it leads
    return _NEW


def _is_same(staged: Path, path: Path, mode: int) -> bool:
    if staged.is_symlink():
        return stat.S_ISLNK(mode) and staged.readlink() == path.readlink()
    return stat.S_ISREG(mode) and filecmp.cmp(staged, path, shallow=False)


@contextmanager
def _opened(top: int, folders: Sequence[str]) -> Iterator[int]:
    """A folder below another, which is made if need be, opened without following a link."""
    opened = os.dup(top)
    try:
        for name in folders:
            above, opened = opened, _opened_in(opened, name)
            os.close(above)
        yield opened
    finally:
        os.close(opened)


def _opened_in(above: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        os.mkdir(name, dir_fd=above)
        return os.open(name, _FOLDER, dir_fd=above)


MAX_FILES = 1_000_000
"Members of an archive."
_MAX_TARGET = 4095
"Bytes of where a symlink leads, as Linux allows."
_LAST_TIME = 1 << 33
"Seconds since 1970, in the year 2242."


def stage(
    members: Iterable[tuple[Member, Content]], folder: Path, max_size: int
) -> tuple[dict[str, Path], dict[str, str]]:
    """Write files and links into an empty folder that no other user may write to.

    Returns where they are, and why others were left out, by the names in the archive.

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
    return files, refused


def _require_room(number: int, left: int, max_size: int) -> None:
    if number >= MAX_FILES:
        raise RequestError(f"the job made more than {MAX_FILES:,} files", "Fetch some of them with --only.")
    if left < 0:
        most = canonical_size(-(-max_size >> 20))
        raise RequestError(
            f"the job made more than {most}", "Fetch some of it with --only, or allow more with --max-size."
        )


def _write(member: Member, content: Content, path: Path, files: Mapping[str, Path]) -> str | None:
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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _safe_mode(member.mode))
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(content)
        file.flush()  # what is written later changes the time again
        seconds = min(max(member.mtime, 0), _LAST_TIME)
        os.utime(descriptor, (seconds, seconds))


def _safe_mode(mode: int) -> int:
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
