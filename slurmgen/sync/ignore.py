"""Ignore files, as git reads them."""

import os
import re
import string
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import xor
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.files import NotPlainFile, is_inside, read_bytes
from slurmgen.sync.git import repository
from slurmgen.text import visible

CACHED = 1 << 25
"Bytes, roughly, that the known steps of one automaton may take before they are dropped."
_STEP = 200
"Bytes of a known step, besides those of its state."


class Patterns:
    """The lines of an ignore file. `start` is the state before a path, which begins in the file's folder."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        found: list[Token] = []
        starts: list[int] = []
        self._lines: dict[int, int] = {}
        "The number of the line by the position at its end."
        for number, line in enumerate(lines):
            if added := tokens(line):
                starts.append(len(found))
                found += added
                self._lines[len(found) - 1] = number
        for_files = [end for end, number in self._lines.items() if not lines[number].endswith(b"/")]
        self._ends = _bits(for_files), _bits(self._lines)
        "The ends of the patterns that match files, and folders."
        self._accepts = _by_byte([token.accepts for token in found])
        self._repeats = _by_byte([token.repeats for token in found])
        self._optional = _bits(at for at, token in enumerate(found) if token.repeats)
        self._known: list[dict[int, int]] = [{} for _ in range(256)]
        "Steps by byte and state."
        self._room = self._most = CACHED // (_STEP + len(found) // 8)
        self.start = self._skipped(_bits(starts))

    def after(self, state: int, name: bytes) -> int:
        """The state after more bytes of a path."""
        known = self._known
        for byte in name:
            try:
                state = known[byte][state]
            except KeyError:
                state = self._step(state, byte)
        return state

    def match(self, state: int, *, is_folder: bool) -> int | None:
        """The number of the line that matches the path read so far; of several the last, as in git."""
        ends = state & self._ends[is_folder]
        return self._lines[ends.bit_length() - 1] if ends else None

    def _step(self, state: int, byte: int) -> int:
        if self._room <= 0:
            for steps in self._known:
                steps.clear()
            self._room = self._most
        reached = self._skipped((state & self._accepts[byte]) << 1)
        self._known[byte][state] = following = reached | state & self._repeats[byte]
        self._room -= 1
        return following

    def _skipped(self, state: int) -> int:
        """Add positions reachable by skipping up to two optional tokens, as in `**/*`."""
        state |= (state & self._optional) << 1
        return state | (state & self._optional) << 1


def split_lines(text: bytes) -> list[bytes]:
    """The patterns of an ignore file, one for each line; an empty one for a comment."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [b"" if line.startswith(b"#") else _trimmed(line.removesuffix(b"\r")) for line in lines]


def _trimmed(line: bytes) -> bytes:
    """Without blanks at the end, except one after a backslash, and without what follows a NUL."""
    line = line.partition(b"\0")[0]
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and kept != line else kept


def _bits(positions: Iterable[int]) -> int:
    found = list(positions)
    made = bytearray(max(found, default=0) // 8 + 1)
    for at in found:
        made[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(made, "little")


def _by_byte(sets: Sequence[int]) -> list[int]:
    """For each byte, the bits of the sets that hold it.

    A set is a few ranges: noting only where they begin and end takes less time than each byte of them.
    """
    borders: list[list[int]] = [[] for _ in range(257)]
    for at, members in enumerate(sets):
        for byte in _borders(members):
            borders[byte].append(at)
    return list(accumulate(map(_bits, borders[:256]), xor))


@lru_cache(maxsize=4096)  # it takes an ignore file of 100 kB from 1.3 s to 0.07 s
def _borders(members: int) -> tuple[int, ...]:
    changes = members ^ (members << 1)
    return tuple(byte for byte in range(257) if changes >> byte & 1)


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

SLASH = ord("/")
_ANY = (1 << 256) - 1
_IN_NAME = _ANY & ~(1 << SLASH)


class Token(Struct, frozen=True, gc=False):
    """One position in a pattern. A set of bytes is a number with a bit for each of them."""

    accepts: int
    "Bytes that lead to the next position."
    repeats: int = 0
    "Bytes that keep the position. A position that has some may also match nothing."


END = Token(0)
"Follows the last token of a pattern."
_ONE, _STAR = Token(_IN_NAME), Token(_IN_NAME, _IN_NAME)
_FOLDERS, _ANYTHING = Token(1 << SLASH, _ANY), Token(_ANY, _ANY)
"`**/`, and `**` elsewhere."

_WILD = re.compile(rb"[*?\[\\]|\Z")
_PART = re.compile(rb"(?P<stars>\*+)|(?P<one>\?)|(?P<set>\[[!^]?)|\\(?P<escaped>.)|[^*?\[\\]+", re.DOTALL)
_MORE_FOLDERS = re.compile(rb"(?:\*\*+/)*")
_CHARACTERS = re.compile(rb"(\\.|[^\\])(?:-(\\.|[^\]\\]))?", re.DOTALL)
"In a set: one character, or a range."


class _Never(Exception):
    """No path can match the pattern."""


def tokens(line: bytes) -> list[Token]:
    """The tokens of a line, less its `!` and the slash at its end; none if no path can match it."""
    pattern = line.removeprefix(b"!").removesuffix(b"/")
    if not pattern:
        return []
    try:
        if b"/" in pattern:
            return [*_parts(pattern.removeprefix(b"/"), is_path=True), END]
        return [_FOLDERS, *_parts(pattern, is_path=False), END]
    except _Never:
        return []


def _parts(pattern: bytes, *, is_path: bool) -> list[Token]:
    found: list[Token] = []
    first = _WILD.search(pattern)
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:  # a backslash at the end
            raise _Never
        start, at = part.span()
        if part["stars"]:
            # Git compares what is before the first wildcard by itself: `a**/b` is `a`, then `**/b`.
            is_whole = (first and start == first.start()) or pattern[start - 1] == SLASH
            token, at = _stars(pattern, at, deep=is_path and is_whole and at - start > 1)
            found.append(token)
        elif part["set"]:
            members, at = _members(pattern, at)
            found.append(Token((_ANY & ~members if len(part["set"]) > 1 else members) & _IN_NAME))
        elif part["one"]:
            found.append(_ONE)
        else:
            found += [Token(1 << byte) for byte in part["escaped"] or part[0]]
    return found


def _stars(pattern: bytes, end: int, *, deep: bool) -> tuple[Token, int]:
    """The token of the stars before `end`, and where the pattern continues; `deep` ones may pass slashes."""
    if deep and pattern.startswith(b"/", end):
        again = _MORE_FOLDERS.match(pattern, end + 1)
        return _FOLDERS, again.end() if again else end + 1
    if deep and (end == len(pattern) or pattern.startswith(b"\\/", end)):
        return _ANYTHING, end
    return _STAR, end


def _members(pattern: bytes, at: int) -> tuple[int, int]:
    """The bytes in a set such as `[a-z]`, and where the pattern continues; `at` is behind its `[` or `[!`."""
    members, start, close = 0, at, -1
    while at == start or not pattern.startswith(b"]", at):  # the first `]` is literal
        if pattern.startswith(b"[:", at):
            close = close if close > at + 1 else pattern.find(b"]", at + 2)
            if close < 0:
                raise _Never
            if close > at + 2 and pattern.startswith(b":", close - 1):
                members |= _class(pattern[at + 2 : close - 1])
                at = close + 1
                continue
        found = _CHARACTERS.match(pattern, at)
        if found is None:  # the set has no end
            raise _Never
        low, high = found[1][-1], (found[2] or found[1])[-1]
        members |= 1 << low | ((1 << high + 1) - 1) & ~((1 << low) - 1)  # `b-a` holds b
        at = found.end()
    return members, at + 1


def _class(name: bytes) -> int:
    if name not in _CLASSES:
        raise _Never
    return _CLASSES[name]


def _set(text: str) -> int:
    return sum(1 << byte for byte in set(text.encode()))


_ALNUM = string.ascii_letters + string.digits
# Git counts neither vertical tab nor form feed among the blanks.
_CLASSES = {
    b"alnum": _set(_ALNUM),
    b"alpha": _set(string.ascii_letters),
    b"blank": _set(" \t"),
    b"cntrl": (1 << 32) - 1 | 1 << 127,
    b"digit": _set(string.digits),
    b"graph": _set(_ALNUM + string.punctuation),
    b"lower": _set(string.ascii_lowercase),
    b"print": _set(_ALNUM + string.punctuation + " "),
    b"punct": _set(string.punctuation),
    b"space": _set(" \t\n\r"),
    b"upper": _set(string.ascii_uppercase),
    b"xdigit": _set(string.hexdigits),
}
