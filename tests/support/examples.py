"""Examples in a text file beside the tests that read it."""

import re
from pathlib import Path
from typing import NamedTuple


class Example(NamedTuple):
    """An input of whole lines, and what must come of it."""

    name: str
    text: str
    expected: str


def examples(path: Path) -> list[Example]:
    """The examples of a file: perhaps `=== a name`, an input, and `=> what must come of it`."""
    found = re.findall(r"(?ms)\n?(?:^=== ([^\n]*)\n)?(.*?)^=> ([^\n]*)\n", path.read_text())
    return [Example(*one) for one in found]
