"""The pages of the lint rules, from the docstrings that also make docs/rules.md."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from starlette.exceptions import HTTPException

from slurmgen.lint.docs import GROUPS, explain
from slurmgen.lint.finding import Rule
from slurmgen.lint.rules import all_rules

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|(?P<link>https://[^\s)]+)"
    r"|(?P<thread>(?P<repository>[\w.-]+/[\w.-]+) (?:issue|pull request) (?P<number>\d+))"
)
_HEADING, _INDENT = "## ", "    "


@dataclass(frozen=True)
class Part:
    """A piece of a paragraph."""

    text: str
    kind: Literal["text", "code", "link"] = "text"
    address: str = ""
    "Of a link."


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, or an example, whose only part has all its lines."""

    kind: Literal["heading", "paragraph", "example", "blank"]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class RulePage:
    """What a rule is about, and its neighbours in the list."""

    rule: Rule
    blocks: tuple[Block, ...]
    before: str
    after: str


def rule_list() -> dict[str, list[Rule]]:
    """All rules, by the titles of their groups."""
    return {
        title: [rule for code, rule in all_rules().items() if code.startswith(prefix)]
        for prefix, title in GROUPS.items()
    }


def rule_page(code: str) -> RulePage:
    """The page of one rule.

    Raises:
        HTTPException: there is no such rule.
    """
    rules = all_rules()
    if code not in rules:
        raise HTTPException(404, "There is no lint rule with this code")
    codes = ["", *rules, ""]
    at = codes.index(code)
    return RulePage(rules[code], tuple(_blocks(explain(rules[code]))), codes[at - 1], codes[at + 1])


def _blocks(text: str) -> Iterator[Block]:
    """The blocks below the title and the severity, which the page shows in its own way."""
    for kind, lines in groupby(text.splitlines()[3:], _kind):
        if kind == "example":
            code = "\n".join(line.removeprefix(_INDENT) for line in lines)
            yield Block(kind, (Part(code, "code"),))
        elif kind != "blank":
            yield Block(kind, tuple(_parts("\n".join(lines).removeprefix(_HEADING))))


def _kind(line: str) -> Literal["heading", "paragraph", "example", "blank"]:
    if not line:
        return "blank"
    if line.startswith(_INDENT):
        return "example"
    return "heading" if line.startswith(_HEADING) else "paragraph"


def _parts(text: str) -> Iterator[Part]:
    at = 0
    for match in _INLINE.finditer(text):
        yield Part(text[at : match.start()])
        yield _part(match)
        at = match.end()
    yield Part(text[at:])


def _part(match: re.Match[str]) -> Part:
    if match["code"]:
        return Part(match["code"], "code")
    if match["link"]:
        return Part(match["link"], "link", match["link"])
    # GitHub redirects from an issue to the pull request of the same number.
    return Part(match["thread"], "link", f"https://github.com/{match['repository']}/issues/{match['number']}")
