"""Which files of a project are sent.

`.gitignore` files are respected as git does, those above the project too where it is part
of a larger repository. `.slurmgenignore` has the same form and the last word.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slurmgen.errors import TransferFailed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NEVER_SENT = frozenset({".git", ".venv", "__pycache__", ".slurmgen"})
IGNORE_FILES = (".gitignore", ".slurmgenignore")
"Read in this order: the last match counts."


class Snapshot(Struct, frozen=True):
    """Files by the name they get on the far side, and what was left out with the reason."""

    files: dict[str, Path]
    notices: tuple[str, ...] = ()

    def statuses(self) -> dict[str, os.stat_result]:
        """What lstat says of each file."""
        with readable():
            return {name: os.lstat(path) for name, path in self.files.items()}

    def over(self, other: "Snapshot") -> "Snapshot":
        """Both together; where they have the same name, ours is taken."""
        return Snapshot({**other.files, **self.files}, self.notices + other.notices)

    def under(self, folder: str) -> "Snapshot":
        """The same files in a folder."""
        return Snapshot({f"{folder}/{name}": path for name, path in self.files.items()}, self.notices)


class _Rules(Struct, frozen=True):
    """The ignore rules of one folder and of those above it, the nearest first."""

    folder: str
    "Its path, with a slash at the end."
    spec: "GitIgnoreSpec"
    above: "_Rules | None" = None

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path is ignored; the nearest rules that say anything decide."""
        name = path[len(self.folder) :] + ("/" if is_folder else "")
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
    with readable():
        start = len(os.path.join(root, ""))  # noqa: PTH118 (texts, since Paths take most of the time)
        entries = {entry.path[start:]: entry for entry in _walk(root, _rules_above(root))}
        unfit = {name: reason for name, entry in entries.items() if (reason := _unfit(entry, root))}
    names = sorted(entries.keys() - unfit.keys(), key=os.fsencode)
    notices = sorted(f"not sent: {name!r}, {reason}" for name, reason in unfit.items())
    return Snapshot({name: Path(entries[name].path) for name in names}, tuple(notices))


def _walk(folder: Path, above: _Rules | None) -> "Iterator[os.DirEntry[str]]":
    """Every file and link, in any order; no recursion, since folders may be a thousand deep."""
    waiting = [(folder, above)]
    while waiting:
        folder, above = waiting.pop()
        rules = _rules(folder, above)
        for entry in os.scandir(folder):
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in NEVER_SENT or rules.ignore(entry.path, is_folder=is_folder):
                continue
            if is_folder:
                waiting.append((Path(entry.path), rules))
            else:
                yield entry


def _rules(folder: Path, above: _Rules | None) -> _Rules:
    from pathspec import GitIgnoreSpec

    found = [path for path in (folder / name for name in IGNORE_FILES) if path.is_file()]
    if above and not found:
        return above
    lines = [line for path in found for line in path.read_text(errors="surrogateescape").splitlines()]
    return _Rules(os.path.join(folder, ""), GitIgnoreSpec.from_lines(lines), above)  # noqa: PTH118


def _rules_above(root: Path) -> _Rules | None:
    """The rules between the repository that the project is part of and the project."""
    repository = next((folder for folder in [root, *root.parents] if (folder / ".git").exists()), root)
    rules = None
    for folder in reversed(root.parents):
        if folder.is_relative_to(repository):
            rules = _rules(folder, rules)
    return rules


def _unfit(entry: "os.DirEntry[str]", root: Path) -> str | None:
    """Why a file cannot be sent, if so."""
    if entry.is_symlink():
        path = Path(entry.path)
        leads_out = not _stays_inside(path, root)
        return f"a link that leads out of the project to {link_target(path)!r}" if leads_out else None
    return None if entry.is_file(follow_symlinks=False) else "neither a file nor a link"


def _stays_inside(link: Path, root: Path) -> bool:
    """Whether a link means the same on the far side: as written, and followed to its end."""
    written = Path(os.path.normpath(link.parent / link_target(link)))
    return written.is_relative_to(root) and Path(os.path.realpath(link)).is_relative_to(root)


def link_target(link: Path) -> str:
    """Where a link points, as seen from its folder."""
    target = link.readlink()
    return os.path.relpath(target, link.parent) if target.is_absolute() else str(target)


@contextmanager
def readable() -> Iterator[None]:
    """Tell which file cannot be read, as a TransferFailed."""
    try:
        yield
    except OSError as error:
        raise TransferFailed(
            f"cannot read {error.filename}: {error.strerror}",
            "Mend it, or name it in .slurmgenignore.",
        ) from None
