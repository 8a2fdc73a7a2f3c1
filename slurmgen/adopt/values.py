"""Shell words as values of a request: only `$NAME` and a leading `~/` expand, and `$$` is a dollar sign."""

import re
from collections.abc import Iterable, Iterator

from slurmgen.lint.reader.source import UNKNOWN
from slurmgen.lint.reader.words import Word
from slurmgen.slurm.shell import PER_TASK, unprintable, variables_in

_NAME = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
_PARTS = re.compile(
    rf"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<name>{_NAME})"""
    r"""|(?P<plain>[^'"\\$`*?\[\]{}();&|<>\s])""",
    re.DOTALL,
)
_INSIDE = re.compile(rf"(?P<name>{_NAME})|\\(?P<escaped>[$`\"\\])|(?P<plain>[^$`])", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\(\([^)]*\)\)|\$\{[^}]*\}|\$[*@?#]""", re.DOTALL)
"Parts of a word in which no name of a file is matched."
_NAMES_OF_FILES = re.compile(r"[^=]*?(?:[*?]|\[[^\]]+\])")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ONE_WORD = re.compile(r"\$\{?(SLURM_\w+|HOME|USER|PWD|TMPDIR|SCRATCH|WORK|MASTER_ADDR|MASTER_PORT)\}?")
"Variables that are one word without quotes."


def value_of(raw: str, single: Iterable[str] = ()) -> str | None:
    """The value for which slurmgen writes a word of the same meaning; None if there is none.

    Args:
        raw: the word as the script has it.
        single: variables of the script that are one word without quotes.
    """
    text, at = "", 0
    while at < len(raw):
        match = _PARTS.match(raw, at)
        if not match:
            return None
        part = _part(match, frozenset(single))
        if part is None or (raw[at] == "~" and (at or raw[1:2] not in ("", "/"))):
            return None
        text, at = text + part, match.end()
    if raw.startswith(("'~", '"~')) or unprintable(text) is not None:
        return None
    return text


def _part(match: re.Match[str], single: frozenset[str]) -> str | None:
    if match["single"] is not None:
        return match["single"].replace("$", "$$")
    if match["double"] is not None:
        return _inside(match["double"])
    if match["escaped"] is not None:
        return match["escaped"].replace("$", "$$")
    if match["name"] is not None:
        is_one = _ONE_WORD.fullmatch(match["name"]) or match["name"].strip("${}") in single
        return match["name"] if is_one else None
    return match["plain"]


def _inside(text: str) -> str | None:
    """The value of a text in double quotes."""
    found, at = "", 0
    while at < len(text):
        match = _INSIDE.match(text, at)
        if not match:
            return None
        found += match["name"] or (match["escaped"] or match["plain"]).replace("$", "$$")
        at = match.end()
    return found


def word_values(words: Iterable[Word], single: Iterable[str] = ()) -> tuple[str, ...] | None:
    """The values of the words of a command; None if one has no value that means the same."""
    found: list[str] = []
    for word in words:
        raw = word.raw
        if found[-1:] == ["-c"]:  # a line that continues on the next one
            raw = raw.replace("\\\n", " ")
        text = value_of(raw, single)
        of_user = raw.startswith("~")  # the home folder of another one, which only the shell knows
        if text is None and UNKNOWN not in word.text and not (word.loose or of_user or _expands(word)):
            text = word.text.replace("$", "$$")  # the script determines it
        if text is None or unprintable(text) or PER_TASK & set(variables_in(text)):
            return None
        found.append(text)
    return tuple(found)


def _expands(word: Word) -> bool:
    """Whether the shell makes names of files or several words of a word; hardly after `NAME=`.

    It also replaces the escapes of `$'TEXT'`.
    """
    bare = _QUOTED.sub("", word.raw)
    text = word.text if "$" in bare else bare
    return bool("$'" in word.raw or _NAMES_OF_FILES.match(text) or _BRACES.search(bare))


def plain_lines(text: str) -> Iterator[str]:
    """The lines of a piece of the script, without tabs at their beginning, which TOML and terminals hide."""
    for line in text.splitlines():
        rest = line.lstrip("\t ")
        yield line[: len(line) - len(rest)].expandtabs(4) + rest.rstrip()
