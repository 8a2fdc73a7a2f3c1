"""Texts and names use standard terms; docs/glossary.md defines the project's own."""

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

NOT_CHECKED = ("LICENSE", "requirements/", "tests/lint/published/", "tests/test_language.py")
"Texts of others, and this file."

INSTEAD_OF = {
    r"far side|over there": "remote host, login node, cluster",
    r"mend(s|ed|ing)?": "fix, correct",
    r"told|what (was|is) said": "reported, printed, returned; options, reply",
    r"nobody|somebody|whoever|a persons?|person s": "the user; or the program's name; or the passive",
    r"deaf": "ignores the signal",
    r"can(not)? stand (in|for)": "is (not) allowed in",
    r"giv(e|es|en|ing) out": "allocates",
    r"lea(ve|ves|ving) in time": "graceful stop, preemption",
    r"not heard of|unheard": "timed out, not received",
    r"near miss(es)?": "counterexample",
    r"means? nothing": "has no effect",
    r"what became of": "the state of",
    r"pulse": "keepalive",
    r"(?<!there.)is no (?!longer\b|more\b|less\b)[a-z]+": "is not a, is not",
}
"Phrases and what to write instead."


class Use(NamedTuple):
    """A phrase in a file."""

    path: str
    line: int
    phrase: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase}: {self.text}"


class Allowed(NamedTuple):
    """A use that is right."""

    path: str
    text: str
    "A part of the line."
    phrase: str


ALLOWED = (Allowed("tests/twin/test_twin_cli.py", 'UNPRIVILEGED = "nobody"', "nobody"),)


def pattern(phrase: str) -> re.Pattern[str]:
    """The phrase as whole words, in prose, in names, and across the lines of a comment."""
    gap = r"(?:[\s_'-]|# )+"
    return re.compile(rf"(?<![a-z])(?:{phrase.replace(' ', gap)})(?![a-z])", re.IGNORECASE)


def texts() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        path = REPOSITORY / name
        if name and not name.startswith(NOT_CHECKED) and path.suffix != ".svg" and path.is_file():
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def uses(name: str, text: str) -> Iterator[Use]:
    for phrase in INSTEAD_OF:
        for match in pattern(phrase).finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            yield Use(name, number, " ".join(match[0].split()), text.split("\n")[number - 1].strip())


@pytest.fixture(scope="module")
def found() -> list[Use]:
    return [use for name, text in texts() for use in uses(name, text)]


def allows(allowed: Allowed, use: Use) -> bool:
    same_place = allowed.path == use.path and allowed.text in use.text
    return same_place and allowed.phrase.lower() == use.phrase.lower()


def test_texts_and_names_use_standard_terms(found: list[Use]) -> None:
    wrong = [use for use in found if not any(allows(allowed, use) for allowed in ALLOWED)]
    assert not wrong, "\n".join(["", *map(str, sorted(wrong))])


def test_every_exception_is_needed(found: list[Use]) -> None:
    needless = [allowed for allowed in ALLOWED if not any(allows(allowed, use) for use in found)]
    assert needless == []


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("the far side failed", "far side"),
        ("the far\n    # side failed", "far # side"),
        ("def test_nobody_waits():", "nobody"),
        ("is_no_file = 1", "is_no_file"),
        ("the person's modules", "person's"),
    ],
)
def test_a_phrase_is_found_in_prose_and_in_names(text: str, phrase: str) -> None:
    assert [use.phrase for use in uses("x", text)] == [phrase]


@pytest.mark.parametrize(
    "text", ["We recommend it.", "There is no file.", "It is no longer needed.", "so far"]
)
def test_other_words_are_allowed(text: str) -> None:
    assert list(uses("x", text)) == []
