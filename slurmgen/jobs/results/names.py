"""Which names of results are fetched. A login node may send any name, whatever was requested."""

import unicodedata
from collections.abc import Sequence

from slurmgen.sync.files import NEVER_SENT

NEVER_FETCHED = NEVER_SENT | {
    ".hg",
    ".sl",
    ".svn",
    ".bzr",
    ".jj",
    ".pijul",
    "_darcs",
    ".fslckout",
    "_fossil_",
}
"Files that a shell prompt may read in the current folder. They may hold commands."
MAX_DEPTH = 100
"Parts of a path."


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path, without the empty ones and dots.

    >>> parts_of("./out//model.pt")
    ('out', 'model.pt')
    """
    return tuple(part for part in path.split("/") if part not in ("", "."))


def refusal(name: str) -> str | None:
    """Why no file or link of this name is fetched; None if it may be.

    >>> refusal("out/.GIT/config")
    '.git is never fetched'
    """
    parts = parts_of(name)
    if name.startswith("/") or ".." in parts:
        return "it leads out of the folder"
    if not parts or "\0" in name:
        return "it has no valid name"
    if len(parts) > MAX_DEPTH:
        return f"its path has more than {MAX_DEPTH} parts"
    if _folded(parts[-1]) == "head":
        return "a file HEAD can make a Git repository of its folder"
    return reserved(parts)


def reserved(parts: Sequence[str]) -> str | None:
    """Why no path with these parts is fetched; None if it may be."""
    names = (_folded(part) for part in parts)
    return next((f"{name} is never fetched" for name in names if name in NEVER_FETCHED), None)


def _folded(part: str) -> str:
    """A name as it is compared where case and characters without width do not count, as on macOS."""
    if part.isascii():  # nearly all are; what follows takes ten times as long
        return part.lower()
    letters = unicodedata.normalize("NFKC", part)
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf").casefold()
