"""Which files of a project are sent.

`.gitignore` files count as in git, also those above the project if it is part of a larger
repository. `.slurmgenignore` has the same syntax and takes precedence. Files whose names suggest
secrets are left out, whatever these files contain. Logs of jobs are left out unless these files include them.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from slurmgen.errors import RequestError, TransferFailed
from slurmgen.sync.walk import NEVER_SENT as NEVER_SENT
from slurmgen.sync.walk import walk
from slurmgen.text import counted, listed, visible

_NAMED = 10
"Files that cannot be sent and are named one by one."
_LONGEST = 300


class Snapshot(Struct, frozen=True):
    """Files by their names in the remote folder, and which were left out and why."""

    files: dict[str, str]
    "The path of each. A Path takes longer to make than its file to find."
    notices: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    "The kind of secret in each file and folder that is left out; the name of a folder ends in a slash."

    def statuses(self) -> dict[str, os.stat_result]:
        """The status of each file, by lstat."""
        with readable():
            return {name: os.lstat(path) for name, path in self.files.items()}

    def over(self, other: "Snapshot") -> "Snapshot":
        """Both together; of two files with one name, that of this snapshot."""
        files, secrets = {**other.files, **self.files}, {**other.secrets, **self.secrets}
        return Snapshot(files, self.notices + other.notices, secrets)

    def under(self, folder: str) -> "Snapshot":
        """The same files in a folder."""
        files = {f"{folder}/{name}": path for name, path in self.files.items()}
        return Snapshot(
            files, self.notices, {f"{folder}/{name}": what for name, what in self.secrets.items()}
        )

    def secrets_notice(self) -> str:
        """Which secrets were left out; empty if none were."""
        if not self.secrets:
            return ""
        names = listed([f"{name} ({what})" for name, what in self.secrets.items()])
        return f"{counted(len(self.secrets), 'possible secret')} not sent: {names}; --send PATH sends a file"


def snapshot(root: Path, send: Collection[str] = (), logs: re.Pattern[str] | None = None) -> Snapshot:
    """The files and links of a project, sorted by name. Empty folders are not sent, as in git.

    Args:
        root: the project's folder.
        send: files to send although they hold secrets by their names, or are ignored.
        logs: matches the names of jobs' logs, which are not sent unless an ignore file says so.

    Raises:
        RequestError: an ignore file cannot be used, or an entry of `send` is not a file.
        TransferFailed: a folder or an ignore file cannot be read.
    """
    root = root.resolve()
    with readable():
        found = walk(root, logs)
        named = {_plain(name): _named_file(root, name) for name in send}
        outputs = _outputs()
        reasons = ((name, _unfit(entry, root, outputs)) for name, entry in found.entries.items())
        unfit = {name: reason for name, reason in reasons if reason}
    files = {name: entry.path for name, entry in found.entries.items() if name not in unfit} | named
    return Snapshot(
        {name: files[name] for name in by_bytes(files)},
        (*_unfit_notices(unfit), *_overruled_notices(found.overruled)),
        {name: found.secrets[name] for name in sorted(found.secrets) if name not in named},
    )


def by_bytes(names: Collection[str]) -> list[str]:
    """Names in the order of their bytes, which is that of their characters if all are ASCII."""
    return sorted(names, key=None if all(map(str.isascii, names)) else os.fsencode)


def _plain(name: str) -> str:
    return str(PurePosixPath(name))


def _named_file(root: Path, name: str) -> str:
    """A file that the user names."""
    path = root / name
    if never := NEVER_SENT.intersection(path.parts[len(root.parts) :]):
        raise RequestError(f"--send {name}: {min(never)} is never sent", "Copy the file to another folder.")
    if os.path.realpath(path) != f"{root}/{_plain(name)}" or not path.is_file():
        raise RequestError(
            f"--send {name}: there is no such file in {root}", "Give its path relative to that folder."
        )
    return str(path)


def _unfit_notices(unfit: Mapping[str, str]) -> list[str]:
    notices = sorted(f"not sent: {name!r}, {reason}" for name, reason in unfit.items())
    more = len(notices) - _NAMED
    return [*notices[:_NAMED], f"not sent: {more} more of that kind"] if more > 0 else notices


def _overruled_notices(names: Collection[str]) -> list[str]:
    if not names:
        return []
    return [f"sent, as .slurmgenignore says, although .gitignore names it: {listed(sorted(names))}"]


def _outputs() -> dict[int, int]:
    """The files that this process writes its output to: the device of each inode."""
    found = {}
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            status = os.fstat(descriptor)
            found[status.st_ino] = status.st_dev
    return found


def _unfit(entry: "os.DirEntry[str]", root: Path, outputs: Mapping[int, int]) -> str | None:
    """Why a file cannot be sent, if so."""
    if entry.is_symlink():
        path = Path(entry.path)
        leads_out = not _stays_inside(path, root)
        return f"a link that leads out of the project to {link_target(path)!r}" if leads_out else None
    if not entry.is_file(follow_symlinks=False):
        return "neither a file nor a link"
    is_output = entry.inode() in outputs and entry.stat().st_dev == outputs[entry.inode()]
    return "the output of this command" if is_output else None


def _stays_inside(link: Path, root: Path) -> bool:
    """Whether a link stays in the project, as written and when followed, and so works on the remote host."""
    written = Path(os.path.normpath(link.parent / link_target(link)))
    return written.is_relative_to(root) and Path(os.path.realpath(link)).is_relative_to(root)


def link_target(link: Path) -> str:
    """The target of a link, relative to its folder."""
    target = link.readlink()
    return os.path.relpath(target, link.parent) if target.is_absolute() else str(target)


@contextmanager
def readable() -> Iterator[None]:
    """Report a file that cannot be read, as a TransferFailed."""
    try:
        yield
    except OSError as error:
        name = visible(os.fsdecode(error.filename or "a file"))
        short = name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"
        raise TransferFailed(
            f"cannot read {short}: {error.strerror or error}",
            "Correct that, or name the file in .slurmgenignore.",
        ) from None
