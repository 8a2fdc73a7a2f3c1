"""Safe access to files, the folders of the user, and the files that come with slurmgen."""

import grp
import os
import pwd
import stat
from pathlib import Path, PurePosixPath

from slurmgen.errors import ConfigError

MAX_TEXT = 1_000_000
"Bytes of a file that a user writes by hand, such as slurmgen.toml or a batch script."


class NotPlainFile(OSError):
    """The path names no regular file, or the file is too large."""


class OutsideFolder(OSError):
    """The path leads out of its folder."""


def read_bytes(path: Path, limit: int = MAX_TEXT) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it cannot be read, is not a regular file or is larger than `limit` bytes.
    """
    # Without O_NONBLOCK, opening a FIFO blocks until another process writes to it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotPlainFile("it is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise NotPlainFile(f"it is larger than {limit:,} bytes")
    return content


def read_text(path: Path, limit: int = MAX_TEXT) -> str:
    """The text of a regular file in UTF-8; every line ends with a line feed.

    Raises:
        OSError: as `read_bytes`.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_bytes(path, limit).decode().replace("\r\n", "\n").replace("\r", "\n")


def read_inside(folder: Path, name: str | Path, limit: int = MAX_TEXT) -> bytes:
    """The content of a regular file in a folder, reached through no link within it.

    Raises:
        OutsideFolder: as `refuse_links`.
        OSError: as `read_bytes`.
    """
    refuse_links(folder, name)
    return read_bytes(folder / name, limit)


def refuse_links(folder: Path, name: str | Path) -> None:
    """Refuse the name of a file outside the folder, or behind a link in it.

    Raises:
        OutsideFolder: a part of the path is a link, or the name leads out of the folder.
    """
    real = Path(os.path.realpath(folder))
    if Path(name).is_absolute() or os.path.realpath(folder / name) != str(real / name):
        raise OutsideFolder("it is a link, or below one")


def is_file(path: str | Path) -> bool:
    """Whether there is a file; not for a name that is too long for one, for which `Path.is_file` fails."""
    return is_there(path) and Path(path).is_file()


def is_there(path: str | Path) -> bool:
    """Whether a path exists; not for a name that is too long for one."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path stays in a folder when all links are followed."""
    # Path.resolve fails at a link that leads to itself.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def write_inside(folder: Path, name: str | Path, content: bytes, mode: int = 0o666) -> Path:
    """Write a file in a folder atomically; an existing file or link of that name is replaced.

    Args:
        folder: the folder that the file must stay in.
        name: the path from that folder on.
        mode: permissions of a new file, less the umask; a replaced file keeps its own.

    Raises:
        OutsideFolder: the name, or a link in the folder, leads out of it.
        OSError: it cannot be written.
    """
    path = folder / name
    if not is_inside(path.parent, folder) or path.name in ("", ".."):
        raise OutsideFolder(f"{path} leads out of {folder}")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{os.urandom(8).hex()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.chmod(_mode(path, mode))
        new.replace(path)
    except BaseException:
        new.unlink()
        raise
    return path


def _mode(path: Path, new: int) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return new & ~_umask()
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else new & ~_umask()


def _umask() -> int:
    """The umask, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


FOLDER = "training"
"Their folder, both in slurmgen and in a job's folder; it has its own pyproject.toml."
PREFLIGHT = "slurmgen_preflight"
"The folder of the program that checks nodes, in slurmgen and in a job's folder."

_FRAMEWORKS = ("ddp", "fsdp", "lightning", "accelerate")
BUNDLED_SCRIPTS = frozenset(
    [
        *(f"{FOLDER}/train_{framework}.py" for framework in _FRAMEWORKS),
        *(f"{FOLDER}/{name}.py" for name in ("benchmark", "export", "fetch_data", "scaling")),
    ]
)

_TASKS = {"cifar": "cifar10", "cifar100": "cifar100", "mnist": "mnist"}
REPLACED = {
    f"{FOLDER}/{data}_{framework}.py": (f"{FOLDER}/train_{framework}.py", task)
    for data, task in _TASKS.items()
    for framework in ("ddp", "lightning", "accelerate")
}
"The scripts of earlier versions: each is now a script and its `--task`."


def is_bundled(script: str) -> bool:
    """Whether a path from the job's folder on names a bundled script."""
    return str(PurePosixPath(script)) in BUNDLED_SCRIPTS


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
