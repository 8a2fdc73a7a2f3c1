"""Files in folders that another user prepared, such as a cloned repository.

Reading takes regular files of a limited size, so that a FIFO, a device or a huge file cannot stop slurmgen.
Writing stays inside the folder and never goes through a link.
"""

import os
import stat
from pathlib import Path

MAX_TEXT = 1_000_000
"Bytes of a file that a user writes by hand, such as slurmgen.toml or a batch script."


class NotPlainFile(OSError):
    """The path is not that of a regular file, or the file is too large."""


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


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path stays in a folder when all links are followed."""
    # Path.resolve fails at a link that leads to itself.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def write_inside(folder: Path, name: str | Path, content: bytes, mode: int = 0o666) -> Path:
    """Write a file in a folder atomically; an existing file or link of that name is replaced.

    Args:
        folder: the folder that the file must stay in.
        name: the path from that folder on.
        content: the bytes to write.
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
