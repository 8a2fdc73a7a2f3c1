"""The Git commit of a project."""

import os
import re
import subprocess
import time
from pathlib import Path

from msgspec import Struct

from slurmgen.sync.safe_git import Git, safe_git

TIMEOUT = 20.0
"Seconds for all git commands together."
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SUBMODULE = "160000 "
_FAILED = (OSError, ValueError, subprocess.SubprocessError)


class Revision(Struct, frozen=True):
    """A commit, and whether the project differs from it; empty without a repository or a commit."""

    commit: str = ""
    dirty: bool = False
    "True also if unknown: filters do not run, so a touched LFS file counts as changed."


def repository(folder: Path) -> Path | None:
    """The Git work tree of a folder, unless it belongs to another user than the folder."""
    folder = folder.resolve()
    owners = {0, os.geteuid(), folder.stat().st_uid}
    for tree in (folder, *folder.parents):
        if os.path.lexists(tree / ".git"):
            return tree if (tree / ".git").lstat().st_uid in owners else None
    return None


def revision(folder: Path) -> Revision:
    """The revision of a folder. Files that git ignores do not count."""
    deadline = time.monotonic() + TIMEOUT
    commit = ""
    try:
        if tree := repository(folder):
            with safe_git(tree, folder.resolve(), deadline) as git:
                commit = _commit(git)
                return Revision(commit, bool(commit) and _differs(git))
        return Revision()
    except _FAILED:
        return Revision(commit, dirty=bool(commit))


def _commit(git: Git) -> str:
    commit = git("rev-parse", "HEAD").strip()
    return commit if _COMMIT.fullmatch(commit) else ""


def _differs(git: Git) -> bool:
    # `dirty`: git would run itself in each submodule, with the configuration there.
    if git("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", "--", "."):
        return True
    entries = git("ls-files", "--stage", "-z").split("\0")
    names = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
    return any(_submodule_differs(git.folder / name, git.deadline) for name in names)


def _submodule_differs(folder: Path, deadline: float) -> bool:
    if not os.path.lexists(folder / ".git"):  # it is not checked out
        return False
    if folder.resolve() != folder:
        raise ValueError(f"{folder} is behind a link")
    with safe_git(folder, folder, deadline) as git:
        return _differs(git)
