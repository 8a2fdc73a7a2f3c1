"""Which files of a project are sent, and the one tar stream that they are sent in.

`.gitignore` files are respected as git does, those above the project too where it is part
of a larger repository. `.slurmgenignore` has the same form and the last word.
"""

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slurmgen.errors import TransferFailed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NEVER_SENT = frozenset({".git", ".venv", "__pycache__"})
IGNORE_FILES = (".gitignore", ".slurmgenignore")
"Read in this order: the last match counts."
_CHUNK = 1 << 20


class Snapshot(Struct, frozen=True):
    """Files by the name they get on the far side, and what was left out with the reason."""

    files: dict[str, Path]
    notices: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all files."""
        with _readable():
            return sum(path.lstat().st_size for path in self.files.values())

    def over(self, other: "Snapshot") -> "Snapshot":
        """Both together; where they have the same name, ours is taken."""
        return Snapshot({**other.files, **self.files}, self.notices + other.notices)

    def under(self, folder: str) -> "Snapshot":
        """The same files in a folder."""
        return Snapshot({f"{folder}/{name}": path for name, path in self.files.items()}, self.notices)


class _Rules(Struct, frozen=True):
    """The ignore rules of one folder and of those above it, the nearest first."""

    folder: Path
    spec: "GitIgnoreSpec"
    above: "_Rules | None" = None

    def ignore(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a path is ignored; the nearest rules that say anything decide."""
        name = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
        said = self.spec.check_file(name).include
        if said is None and self.above:
            return self.above.ignore(path, is_folder=is_folder)
        return bool(said)


def snapshot(root: Path) -> Snapshot:
    """The files and links of a project, sorted by name. Empty folders are not sent, as in git.

    Raises:
        TransferFailed: a folder or an ignore file cannot be read.
    """
    root = root.resolve()
    with _readable():
        found = {path.relative_to(root).as_posix(): path for path in _walk(root, _rules_above(root))}
        unfit = {name: reason for name, path in found.items() if (reason := _unfit(path, root))}
    names = sorted(found.keys() - unfit.keys(), key=os.fsencode)
    notices = sorted(f"not sent: {name!r}, {reason}" for name, reason in unfit.items())
    return Snapshot({name: found[name] for name in names}, tuple(notices))


def tar(files: Mapping[str, Path], texts: Mapping[str, str]) -> Iterator[bytes]:
    """A tar archive of files and of texts, as parts of at most about a megabyte.

    The owner is left out and the mode kept. Raises TransferFailed if a file cannot be read
    or changes meanwhile.
    """
    for name, path in files.items():
        yield from _member(name, path)
    for name, text in texts.items():
        yield from _text_member(name, text.encode())
    yield bytes(2 * tarfile.BLOCKSIZE)


def _walk(folder: Path, above: _Rules | None) -> Iterator[Path]:
    rules = _rules(folder, above)
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path, is_folder = folder / entry.name, entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER_SENT or rules.ignore(path, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(path, rules)
        else:
            yield path


def _rules(folder: Path, above: _Rules | None) -> _Rules:
    from pathspec import GitIgnoreSpec

    found = [path for path in (folder / name for name in IGNORE_FILES) if path.is_file()]
    lines = [line for path in found for line in path.read_text(errors="surrogateescape").splitlines()]
    return _Rules(folder, GitIgnoreSpec.from_lines(lines), above)


def _rules_above(root: Path) -> _Rules | None:
    """The rules between the repository that the project is part of and the project."""
    repository = next((folder for folder in [root, *root.parents] if (folder / ".git").exists()), root)
    rules = None
    for folder in reversed(root.parents):
        if folder.is_relative_to(repository):
            rules = _rules(folder, rules)
    return rules


def _unfit(path: Path, root: Path) -> str | None:
    """Why a path cannot be sent, if so."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return (
            None
            if _stays_inside(path, root)
            else f"a link that leads out of the project to {_target(path)!r}"
        )
    return None if stat.S_ISREG(mode) else "neither a file nor a link"


def _stays_inside(link: Path, root: Path) -> bool:
    """Whether a link means the same on the far side: as written, and followed to its end."""
    written = Path(os.path.normpath(link.parent / _target(link)))
    return written.is_relative_to(root) and Path(os.path.realpath(link)).is_relative_to(root)


def _target(link: Path) -> str:
    """Where a link points, as seen from its folder."""
    target = link.readlink()
    return os.path.relpath(target, link.parent) if target.is_absolute() else str(target)


def _member(name: str, path: Path) -> Iterator[bytes]:
    with _readable():
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            yield _header(
                name, mode=0o777, mtime=status.st_mtime, type=tarfile.SYMTYPE, linkname=_target(path)
            )
            return
        yield _header(
            name, mode=stat.S_IMODE(status.st_mode) & 0o777, mtime=status.st_mtime, size=status.st_size
        )
        yield from _content(path, status.st_size)


@contextmanager
def _readable() -> Iterator[None]:
    """Tell which file cannot be read."""
    try:
        yield
    except OSError as error:
        raise TransferFailed(
            f"cannot read {error.filename}: {error.strerror}",
            "Mend it, or name it in .slurmgenignore.",
        ) from None


def _content(path: Path, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes of a file, and the zeros that fill the last block."""
    with path.open("rb") as file:
        left = size
        while left:
            chunk = file.read(min(left, _CHUNK))
            if not chunk:
                raise TransferFailed(
                    f"{path} became shorter while it was sent", "Submit again when it is whole."
                )
            left -= len(chunk)
            yield chunk
    yield bytes(-size % tarfile.BLOCKSIZE)


def _text_member(name: str, data: bytes) -> Iterable[bytes]:
    return _header(name, mode=0o700, size=len(data)), data, bytes(-len(data) % tarfile.BLOCKSIZE)


def _header(name: str, **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, int(value) if isinstance(value, float) else value)
    # GNU's form carries a name's bytes as they are; every tar on a cluster reads it.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
