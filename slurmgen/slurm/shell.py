"""Quote text for a POSIX shell; every value from the user is quoted here."""

import re
import shlex
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Annotated

from msgspec import Meta, Struct

VariableName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", description="letters, digits and _, not beginning with a digit"
    ),
]

PER_TASK = frozenset(
    ("SLURM_GTIDS SLURM_LOCALID SLURM_NODEID SLURM_PROCID SLURM_TASK_PID SLURMD_NODENAME").split()
)
"Variables whose value differs between tasks; in the batch script they have the value of the first task."

# A newline would end a comment or a directive, a NUL ends a C string, and a lone surrogate (from an argument
# that is not UTF-8) cannot be written to the script at all.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_SPECIAL = re.compile(r'([\\"`]|\$(?![A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}))')

_SEGMENT = re.compile(r"""\"((?:[^"\\]|\\.)*)\"|'([^']*)'|[^"']+""")

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})\}})")

_LONGEST = 500
"Characters of a text whose result is cached: on a server, many long ones would fill the memory."


def _cached(function: Callable[[str], str]) -> Callable[[str], str]:
    """The same function, faster for texts that return: many requests share most of their words."""
    cached = lru_cache(maxsize=4096)(function)

    @wraps(function)
    def call(text: str) -> str:
        return cached(text) if len(text) <= _LONGEST else function(text)

    return call


quote = _cached(shlex.quote)
"Quote a value so that the shell does not expand it."


@_cached
def expandable(text: str) -> str:
    r"""Quote a value so that only `$NAME` and `${NAME}` expand.

    >>> print(expandable("$HOME/a b"), expandable("$(reboot)"), expandable("/usr/lib64"))
    "$HOME/a b" "\$(reboot)" /usr/lib64
    """
    return f'"{_escaped(text)}"' if re.search(r"[$`\\]", text) else quote(text)


def word(text: str) -> str:
    r"""A value as a shell word: only `$NAME`, `${NAME}` and a leading `~/` expand.

    `$$` is a dollar sign. docs/values.md lists the values that are written like this.

    >>> print(word("~/a b"), word("$HOME/a b"), word("$$HOME"))
    "$HOME"/'a b' "$HOME/a b" "\$HOME"
    """
    if text == "~" or text.startswith("~/"):
        return '"$HOME"' + (f"/{word(text[2:])}" if text[2:] else text[1:])
    if "$$" in text:
        return '"' + r"\$".join(map(_escaped, text.split("$$"))) + '"'
    return expandable(text)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def literal(text: str) -> str:
    r"""Quote a value so that the shell does not expand it, in double quotes if it has special characters.

    >>> print(literal("it's $HOME"), literal("a b"))
    "it's \$HOME" 'a b'
    """
    return '"' + re.sub(r'([\\"`$])', r"\\\1", text) + '"' if re.search(r"['$`\\]", text) else quote(text)


def in_one_word(words: Iterable[str], separator: str) -> str:
    r"""Several shell words as one in double quotes.

    >>> print(in_one_word(['"$PWD:$PWD"', "/data", "'/a b'"], ","))
    "$PWD:$PWD,/data,/a b"
    """
    parts = (_SEGMENT.sub(_within_double_quotes, word) for word in words)
    return f'"{separator.join(parts)}"'


def _within_double_quotes(segment: re.Match[str]) -> str:
    quoted, literal = segment.groups()
    return quoted if quoted is not None else _escaped(literal if literal is not None else segment[0])


def is_full_path(text: str) -> bool:
    """Whether such a value is an absolute path, or begins with the home folder or a variable."""
    return text == "~" or text.startswith(("/", "~/")) or _VARIABLE.match(text) is not None


def variables_in(text: str) -> list[str]:
    """The variables that expand in such a value, in order."""
    return [a or b for part in text.split("$$") for a, b in _VARIABLE.findall(part)]


def unprintable(value: object) -> str | None:
    """The first text in a value that a script cannot contain; None if there is none."""
    if isinstance(value, str):
        return value if not value.isprintable() and _UNPRINTABLE.search(value) else None
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, list | tuple) and value:
        return next((found for item in value if (found := unprintable(item)) is not None), None)
    return None


class Variable(Struct, frozen=True):
    """One exported variable."""

    name: str
    value: str
    word: str
    "The value as a shell word."
    comment: str | None = None
    prefix: str = ""
    "What a container engine needs before the name."


EXPORT_ALL = "--export=ALL"
"""Without it, srun inherits the `--export=NONE` of the user, of the site's sbatch, or of SRUN_EXPORT_ENV.
https://slurm.schedmd.com/srun.html#OPT_SLURM_EXPORT_ENV"""


def on_each_node(command: str, nodes: int) -> list[str]:
    """The lines of a batch script that run a command once on each of its nodes."""
    comment = ["# shellcheck disable=SC2016  # each node expands its own variables"] if "$" in command else []
    return [*comment, f"{node_step(nodes)} bash -c {quote(command)}"]


def node_step(nodes: int) -> str:
    """The srun of such a step: one task on each node."""
    return f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 {EXPORT_ALL}"
