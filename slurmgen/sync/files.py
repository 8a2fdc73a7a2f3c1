"""Which files of a project are sent.

`.gitignore` files are respected as git does, those above the project too where it is part
of a larger repository. `.slurmgenignore` has the same form and the last word. Files that hold
secrets by their names are left out, whatever the project says.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from msgspec import Struct

from slurmgen.errors import RequestError, TransferFailed
from slurmgen.sync.walk import NEVER_SENT as NEVER_SENT
from slurmgen.sync.walk import walk
from slurmgen.text import counted, listed, visible

_NAMED = 10
"Files that are named one by one, where they cannot be sent."
_LONGEST = 300


class Snapshot(Struct, frozen=True):
    """Files by the name they get on the far side, and what was left out with the reason."""

    files: dict[str, Path]
    notices: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    "What files and folders hold that are left out for that; the name of a folder ends in a slash."

    def statuses(self) -> dict[str, os.stat_result]:
        """What lstat says of each file."""
        with readable():
            return {name: os.lstat(path) for name, path in self.files.items()}

    def over(self, other: "Snapshot") -> "Snapshot":
        """Both together; where they have the same name, ours is taken."""
        files, secrets = {**other.files, **self.files}, {**other.secrets, **self.secrets}
        return Snapshot(files, self.notices + other.notices, secrets)

    def under(self, folder: str) -> "Snapshot":
        """The same files in a folder."""
        files = {f"{folder}/{name}": path for name, path in self.files.items()}
        return Snapshot(
            files, self.notices, {f"{folder}/{name}": what for name, what in self.secrets.items()}
        )

    def secrets_notice(self) -> str:
        """Which secrets were left out; nothing if none were."""
        if not self.secrets:
            return ""
        names = listed([f"{name} ({what})" for name, what in self.secrets.items()])
        return f"{counted(len(self.secrets), 'possible secret')} not sent: {names}; --send PATH sends a file"


def snapshot(root: Path, send: Collection[str] = ()) -> Snapshot:
    """The files and links of a project, sorted by name. Empty folders are not sent, as in git.

    Args:
        root: the project's folder.
        send: files to send although they hold secrets by their names, or are ignored.

    Raises:
        RequestError: an ignore file cannot be used, or a file of `send` is none.
        TransferFailed: a folder or an ignore file cannot be read.
    """
    root = root.resolve()
    with readable():
        found = walk(root)
        asked = {_plain(name): _asked(root, name) for name in send}
        unfit = {name: reason for name, entry in found.entries.items() if (reason := _unfit(entry, root))}
    files = {name: Path(entry.path) for name, entry in found.entries.items() if name not in unfit} | asked
    return Snapshot(
        {name: files[name] for name in sorted(files, key=os.fsencode)},
        (*_unfit_notices(unfit), *_overruled_notices(found.overruled)),
        {name: found.secrets[name] for name in sorted(found.secrets) if name not in asked},
    )


def _plain(name: str) -> str:
    return str(PurePosixPath(name))


def _asked(root: Path, name: str) -> Path:
    """A file that the user names."""
    path = root / name
    if never := NEVER_SENT.intersection(path.parts[len(root.parts) :]):
        raise RequestError(f"--send {name}: {min(never)} is never sent", "Copy the file to another folder.")
    if os.path.realpath(path) != f"{root}/{_plain(name)}" or not path.is_file():
        raise RequestError(f"--send {name}: there is no such file in {root}", "Name it from that folder on.")
    return path


def _unfit_notices(unfit: Mapping[str, str]) -> list[str]:
    told = sorted(f"not sent: {name!r}, {reason}" for name, reason in unfit.items())
    more = len(told) - _NAMED
    return [*told[:_NAMED], f"not sent: {more} more of that kind"] if more > 0 else told


def _overruled_notices(names: Collection[str]) -> list[str]:
    if not names:
        return []
    return [f"sent, as .slurmgenignore says, although .gitignore names it: {listed(sorted(names))}"]


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
        name = visible(os.fsdecode(error.filename or "a file"))
        short = name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"
        raise TransferFailed(
            f"cannot read {short}: {error.strerror or error}",
            "Mend it, or name it in .slurmgenignore.",
        ) from None
