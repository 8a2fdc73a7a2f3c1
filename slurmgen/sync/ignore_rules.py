"""Which paths of a project its ignore files leave out."""

import os
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.files import NotPlainFile, is_inside, read_bytes
from slurmgen.sync.ignore_patterns import Patterns, split_lines
from slurmgen.sync.revision import repository
from slurmgen.text import visible

OWN = ".slurmgenignore"
IGNORE_FILES = (OWN, ".gitignore")
"In one folder, the first that matches a path decides."
LIMIT = 100_000
"Bytes of the ignore files that apply in a folder, its own and those above; limits time and memory."


class Rules(Struct, frozen=True):
    """The lines of one ignore file, as they apply in its folder or one below."""

    lines: list[bytes]
    patterns: Patterns
    state: int
    "Of the patterns, after the path to the folder."
    is_own: bool
    "Whether the file is a .slurmgenignore."
    size: int

    def ignore(self, name: bytes, *, is_folder: bool) -> bool | None:
        """Whether an entry of the folder is ignored; None if no line matches it."""
        line = self.patterns.match(self.patterns.after(self.state, name), is_folder=is_folder)
        return None if line is None else not self.lines[line].startswith(b"!")

    def below(self, name: bytes) -> "Rules":
        """The rules as they apply in a subfolder."""
        return structs.replace(self, state=self.patterns.after(self.state, name + b"/"))


Chain = tuple[Rules, ...]
"The rules that apply in a folder; the first that match a path decide."


def ignored(chain: Chain, name: bytes, *, is_folder: bool) -> bool | None:
    """Whether an entry of a folder is ignored; None if no line matches it."""
    for rules in chain:
        if (is_ignored := rules.ignore(name, is_folder=is_folder)) is not None:
            return is_ignored
    return None


def chain_in(folder: Path, names: Collection[str], above: Chain, root: Path) -> Chain:
    """The rules of a folder.

    Args:
        folder: the folder.
        names: of its entries.
        above: the rules of the folders above, as they apply in it.
        root: a folder that an ignore file must not lead out of.

    Raises:
        RequestError: an ignore file cannot be used.
        OSError: it cannot be read.
    """
    found = [_rules(folder / name, root) for name in IGNORE_FILES if name in names]
    chain = (*(rules for rules in found if rules), *above)
    if sum(rules.size for rules in chain) > LIMIT:
        raise RequestError(f"the ignore files of {visible(str(folder))} and above have {_TOO_MUCH}", _SHORTEN)
    return chain


def chain_above(root: Path) -> Chain:
    """The rules between the repository that the project is part of and the project.

    Raises:
        RequestError, OSError: as `chain_in`.
    """
    tree = repository(root) or root
    folder = tree
    chain: Chain = ()
    for part in root.relative_to(tree).parts:
        names = [name for name in IGNORE_FILES if os.path.lexists(folder / name)]
        chain = tuple(rules.below(os.fsencode(part)) for rules in chain_in(folder, names, chain, tree))
        folder /= part
    return chain


def _rules(path: Path, root: Path) -> Rules | None:
    if path.is_dir():  # as in git
        return None
    shown = visible(str(path))
    if path.is_symlink() and not is_inside(path, root):
        raise RequestError(f"{shown} is a link that leads out of the project", "Replace it with a file.")
    try:
        lines = split_lines(text := read_bytes(path, LIMIT))
    except FileNotFoundError:  # a link to nothing
        return None
    except NotPlainFile as error:
        raise RequestError(f"{shown} is not an ignore file: {error}", "Replace it, or remove it.") from None
    patterns = Patterns(lines)
    return Rules(lines, patterns, patterns.start, path.name == OWN, len(text))


_TOO_MUCH = f"more than {LIMIT:,} bytes together"
_SHORTEN = "Name folders instead of files, or use wildcards."
