"""Reads the pages of the guide."""

import re
from textwrap import dedent

from .running import REPOSITORY


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    text = (REPOSITORY / "docs" / "guide" / f"{page}.md").read_text()
    found = re.findall(rf"^( *)```{re.escape(language)}\n(.*?)^ *```$", text, re.M | re.S)
    return [dedent(block) for _, block in found]


def shown_output(page: str, command: str) -> str:
    """What a console block of a page prints after `$ command`."""
    for block in blocks(page, "console"):
        first, _, rest = block.partition("\n")
        if first == f"$ {command}":
            return rest
    raise AssertionError(f"{page}.md has no console block that starts with `$ {command}`")
