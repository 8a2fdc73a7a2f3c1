"""Text for the user, a terminal, or the log of a continuous integration service."""

import re
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

# GitHub executes `::name ...::` at the start of a line, after blanks too, and `##[name]` anywhere.
# Azure executes `##vso[...]`.
_COLONS = re.compile(r"(^|\r)([^\S\r\n]*):(?=:.*::)", re.MULTILINE)
_HASHES = re.compile(r"#(?=#[A-Za-z]*\[)")
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless it is 1.

    >>> counted(1, "file"), counted(0, "file")
    ('1 file', '0 files')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Collection[str], most: int = 5) -> str:
    """The first few names, and the number of the others.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(islice(names, most)) + more


def unstyled(text: str, **_style: object) -> str:
    """The text without colours; stands in for `click.style`."""
    return text


def visible(text: str, keep: str = "") -> str:
    r"""Escape what could control a terminal or a log, in text from another user or program.

    That is every control character, every change of the writing direction, and the beginning of a command
    to a continuous integration service. The characters in `keep`, such as a newline, stay.

    >>> print(visible("a\x1b[2J\u202eb\n"), visible("::error::a"))
    a\x1b[2J\u202eb\n \x3a:error::a
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)
    return without_commands(text)


def without_commands(text: str) -> str:
    """The text without commands to a continuous integration service."""
    return _HASHES.sub(r"\\x23", _COLONS.sub(r"\1\2\\x3a", text))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def visible_json(value: Any, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """A value as a line of ASCII JSON in which nothing can control a terminal or a log."""
    import json  # slow to import

    return visible_strings(json.dumps(value, indent=indent, default=default)) + "\n"


def visible_strings(text: str) -> str:
    r"""Escape the same as `visible` in JSON or TOML, with escapes of these languages; newlines stay.

    >>> print(visible_strings('["\x7f", "##[add-mask]é"]'))
    ["\u007f", "\u0023#[add-mask]é"]
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else _unicode_escape(c) for c in text)
    return _HASHES.sub(r"\\u0023", text)


def toml_key(name: str) -> str:
    """A key of TOML, quoted if necessary.

    >>> print(toml_key("max_time"), toml_key("a100_1g.5gb"))
    max_time "a100_1g.5gb"
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A string, number, list or table as one line of TOML; JSON's strings and numbers are TOML's too.

    >>> print(toml_value([{"nodes": 2, "time": "02:00:00"}]))
    [{ nodes = 2, time = "02:00:00" }]
    """
    import json

    if isinstance(value, dict):
        pairs = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return visible_strings(json.dumps(value, ensure_ascii=False))


def _unicode_escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def annotation(severity: str, message: str, **properties: object) -> str:
    """A workflow command of GitHub that annotates a line of a pull request.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
    """
    pairs = ",".join(f"{name}={_encoded(str(value), _PROPERTY)}" for name, value in properties.items())
    return f"::{severity} {pairs}::{_encoded(message, _DATA)}\n"


def _encoded(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(c, c if c.isprintable() else _escape(c)) for c in text)


def plain(name: str) -> str:
    """The name with only characters that are safe in file names."""
    return re.sub(r"[^\w.+=:@-]", "_", name, flags=re.ASCII).lstrip(".-")


MAX_NAME = 100


def script_name(name: str) -> str:
    """The name of the batch script in the run folder of a job."""
    return f"{plain(name)[:MAX_NAME]}.sbatch"
