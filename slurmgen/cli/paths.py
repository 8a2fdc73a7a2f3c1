"""Paths on this machine: where things are kept, and how they are shown."""

import os
from pathlib import Path


def cache_dir() -> Path | None:
    """A folder of your own for compiled templates; None where there can be none."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "slurmgen", "templates")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    # What is in there gets run, so that nobody else may write to it.
    is_ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if is_ours and os.access(folder, os.W_OK) else None


def shown(path: Path) -> str:
    """A path as a person would type it here."""
    return os.path.relpath(path)
