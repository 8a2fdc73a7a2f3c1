"""Text for a POSIX shell: every value that came from a person goes through here."""

import re
import shlex
from functools import lru_cache

from msgspec import Struct

# A newline would end a comment or a directive, a NUL ends every C string, and a lone
# surrogate (an argument that is not UTF-8) cannot be written to the script at all.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_ESCAPED = re.compile(r'([\\"`]|\$(?![A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}))')

quote = lru_cache(maxsize=4096)(shlex.quote)  # many requests share most of their words
"Quote a value so that the shell takes it as it stands."


@lru_cache(maxsize=1024)
def expandable(text: str) -> str:
    r"""Quote a value of a site profile: only `$NAME` and `${NAME}` keep their meaning.

    >>> print(expandable("$HOME/a b"), expandable("$(reboot)"), expandable("/usr/lib64"))
    "$HOME/a b" "\$(reboot)" /usr/lib64
    """
    if "$" not in text:
        return quote(text)
    return '"' + _ESCAPED.sub(r"\\\1", text) + '"'


def unprintable(value: object) -> str | None:
    """The first text within a value that no script can hold; None if there is none."""
    if isinstance(value, str):
        return value if not value.isprintable() and _UNPRINTABLE.search(value) else None
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, list | tuple) and value:
        return next((found for item in value if (found := unprintable(item)) is not None), None)
    return None


class Variable(Struct, frozen=True, gc=False):
    """One exported variable."""

    name: str
    value: str
    word: str
    "The value as a shell word."
    comment: str | None = None
    prefix: str = ""
    "What a container engine wants before the name."
