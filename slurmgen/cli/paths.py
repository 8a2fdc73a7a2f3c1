"""Local paths: the folder of compiled templates, and files that the user names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurmgen.config.project import FILE_NAME
from slurmgen.errors import ConfigError, RequestError
from slurmgen.files import OutsideFolder, refuse_links, write_inside
from slurmgen.paths import cache_folder, make_private


def cache_dir() -> Path | None:
    """The user's folder for compiled templates; None if other users could write code into it."""
    try:
        return make_private(cache_folder() / "bytecode")
    except (ConfigError, OSError):
        return None


def shown(path: Path) -> str:
    """A path relative to the current folder."""
    return os.path.relpath(path)


def write(path: Path, content: bytes) -> None:
    """Write a file that the user named.

    A link in a cloned repository leads to a file that another user chose, so a link is refused.

    Raises:
        RequestError: it is a link or behind one in the project, or it cannot be written.
    """
    try:
        if path.is_relative_to("/dev"):  # typed by the user, such as /dev/stdout
            path.write_bytes(content)
            return
        _refuse_links(path)
        if path.exists() and not path.is_file():  # such as a pipe
            path.write_bytes(content)
        else:
            write_inside(path.parent, path.name, content)
    except OSError as error:
        raise unwritable(path, error) from error


def _refuse_links(path: Path) -> None:
    """Refuse a link, and a path through a link of the project; links above the project are the user's own."""
    if path.is_symlink():
        raise OutsideFolder(f"it is a link to {path.readlink()}")
    here = Path.cwd()
    tops = (folder for folder in (here, *here.parents) if any(map(os.path.lexists, _marks(folder))))
    top = next(tops, here)
    whole = Path(os.path.normpath(here / path))
    if whole.is_relative_to(top):
        refuse_links(top, whole.relative_to(top))


def _marks(folder: Path) -> tuple[Path, Path]:
    """What makes a folder the top of a project."""
    return folder / FILE_NAME, folder / ".git"


def write_in_project(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of a project; a path that contains a link is refused.

    Raises:
        RequestError: its path contains a link, or it cannot be written.
    """
    try:
        refuse_links(folder, path.relative_to(folder))
        write_inside(folder, path.relative_to(folder), content)
    except OSError as error:
        raise unwritable(path, error) from error


def write_new(path: Path, text: str) -> None:
    """Write a new file that the user named, as `write`.

    Raises:
        RequestError: the file exists, its path contains a link of the project, or it cannot be written.
    """
    try:
        _refuse_links(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file, removed_on_error(path):
            file.write(text)
            file.flush()
    except OSError as error:
        raise unwritable(path, error, "Name a new file.") from error


@contextmanager
def removed_on_error(path: Path) -> Iterator[None]:
    """Remove a new file if it cannot be written, so that the same command can be repeated."""
    try:
        yield
    except OSError:
        path.unlink(missing_ok=True)
        raise


def unwritable(path: Path, error: OSError, hint: str = "") -> RequestError:
    """The error for a file that cannot be written."""
    return RequestError(f"{shown(path)} cannot be written: {error.strerror or error}", hint)
