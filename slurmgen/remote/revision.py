"""Which commit of git a project is at."""

import os
import subprocess
from pathlib import Path

from msgspec import Struct

TIMEOUT = 20.0


class Revision(Struct, frozen=True):
    """A commit, and whether the project differs from it; empty where there is no git or no commit."""

    commit: str = ""
    dirty: bool = False


def revision(folder: Path) -> Revision:
    """The revision of a folder. Files that git ignores do not count."""
    argv = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "-z", "--", "."]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        reply = subprocess.run(argv, capture_output=True, env=environ, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Revision()
    lines = reply.stdout.decode(errors="replace").split("\0")
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
    if reply.returncode or not commit.isalnum():  # `(initial)` before the first commit
        return Revision()
    return Revision(commit, any(line and not line.startswith("# ") for line in lines))
