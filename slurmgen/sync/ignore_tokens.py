"""One pattern of an ignore file as a sequence of tokens, read as git's dir.c and wildmatch.c do."""

import re
import string

from msgspec import Struct

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
