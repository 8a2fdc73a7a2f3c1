"""Paths: the folders that come with slurmgen, and the user's own for settings, state and caches."""

import grp
import os
import pwd
import stat
from pathlib import Path

from slurmgen.errors import ConfigError

_PACKAGE = Path(__file__).parent
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def bundled(name: str) -> Path:
    """The folder `templates`, `site_profiles`, `training`, `skills` or `slurmgen_preflight`.

    A wheel has it inside the package; in a checkout it is beside the package.
    """
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def config_folder() -> Path:
    """The user's settings, such as ~/.config/slurmgen.

    Raises:
        ConfigError: the user has no home directory.
    """
    return _user_folder("config")


def state_folder() -> Path:
    """The ledger and the twins, such as ~/.local/state/slurmgen.

    Raises:
        ConfigError: the user has no home directory.
    """
    return _user_folder("state")


def cache_folder() -> Path:
    """Data that can be computed again, such as ~/.cache/slurmgen.

    Raises:
        ConfigError: the user has no home directory.
    """
    return _user_folder("cache")


def _user_folder(kind: str) -> Path:
    import platformdirs  # 10 ms

    try:
        folder: Path = getattr(platformdirs, f"user_{kind}_path")("slurmgen")
    except RuntimeError:
        raise ConfigError(
            "the home directory is unknown", f"Set HOME or XDG_{kind.upper()}_HOME to an absolute path."
        ) from None
    return folder


def make_private(folder: Path) -> Path:
    """Make a folder that only the user may read or write, with every missing folder above it.

    Raises:
        ConfigError: other users may write to the folder, or replace it.
        OSError: it cannot be made.
    """
    for path in (*reversed(folder.parents), folder):
        try:
            path.mkdir(mode=0o700)
        except OSError:  # it exists, or cannot be made, which matters only for the last one
            if path == folder and not folder.is_dir():
                raise
    require_private(folder)
    return folder


def publish(complete: Path, folder: Path) -> None:
    """Rename a complete folder, so that no process sees a part of it; the first of several processes wins.

    Raises:
        OSError: it cannot be renamed.
    """
    try:
        complete.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def require_private(path: Path) -> None:
    """Refuse a file or folder that another user could have written or replaced.

    Raises:
        ConfigError: another user owns it or may write to it, or to a folder above it.
        OSError: it does not exist.
    """
    if (reason := writable_by_others(path)) is not None:
        raise ConfigError(
            f"{path} is not safe to use: {reason}",
            "Make it yours alone (chown, chmod go-w).",
        )


def writable_by_others(path: Path) -> str | None:
    """Why another user could have written or replaced what is at a path; None if no other user could.

    Both links and their targets count. A folder that others may write to is accepted above the path
    if its sticky bit is set, as in /tmp. The group that belongs to the user alone is the user.

    Raises:
        OSError: there is nothing at the path.
    """
    path = path.absolute()  # `resolve` would follow the links that are to be checked
    for place in (path, *path.parents):
        status = place.lstat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to {_user(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            if reason := writable_by_others(place.resolve(strict=True)):
                return reason
        elif _others_may_write(status) and not (place != path and status.st_mode & stat.S_ISVTX):
            return f"other users may write to {place}"
    return None


def controlled_by_others(path: Path) -> str | None:
    """Why a file or folder is controlled by other users; None if it is not.

    Unlike `writable_by_others`, the group and the folders above do not count: colleagues share a project
    by giving their group write access to it.

    Raises:
        OSError: there is nothing at the path.
    """
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return controlled_by_others(path.resolve()) if path.is_file() or path.is_dir() else None
    return f"every user may write to {path}" if status.st_mode & stat.S_IWOTH else None


def _others_may_write(status: os.stat_result) -> bool:
    mode = status.st_mode & _WRITABLE_BY_OTHERS
    return bool(mode) and not (mode == stat.S_IWGRP and _is_own_group(status.st_gid))


def _is_own_group(gid: int) -> bool:
    """Whether this user is the only member of a group, as many systems make one for each user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
