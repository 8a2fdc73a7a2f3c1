"""A Python file as facts: its imports, its calls with constant arguments, and the variables that it sets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

from msgspec import Struct

from slurmgen.files import read_text

Constant = str | int | float | bool | None
LARGEST_FILE = 200_000
"Size limit of a file, in bytes: Python needs 0.1 s for the syntax tree of so many."
_LARGEST = 10**9
"The largest number that counts something."
_NUMBER = re.compile("[0-9]{1,9}")


class Call(NamedTuple):
    """A call with its constant keyword arguments."""

    name: str
    line: int
    constants: dict[str, Constant]
    complete: bool
    "Whether all keywords are known; `**options` may contain others."
    owner: str = ""
    "What the function is an attribute of, such as `jax.distributed`."
    positional: int = 0
    "Arguments without a keyword."
    first: Constant = None
    "The first argument without a keyword, if it is a constant."
    is_base: bool = False
    "Whether it is the class that another one extends, and not a call."
    inside: str = ""
    "The function or class at the top level of the file that it is in."

    def number(self, keyword: str, default: int | None = None) -> int | None:
        """The number of a keyword; `default` if the call is known to omit it; None if unknown."""
        if keyword not in self.constants:
            return default if self.complete else None
        value = self.constants[keyword]
        if isinstance(value, str):
            return int(value) if _NUMBER.fullmatch(value) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


UNKNOWN = "unknown"
"The value of a keyword whose argument is not a constant."


class Fault(NamedTuple):
    """Why Python does not compile a file."""

    line: int
    text: str
    certain: bool
    "Whether no version of Python compiles it; a later one than ours has further syntax."


class Import(NamedTuple):
    """A name that a file imports."""

    module: str
    "With a dot for each level of a relative import."
    name: str
    "What is imported of it; empty for the module itself."
    line: int = 0


class Source(Struct, frozen=True):
    """What a Python file says."""

    calls: tuple[Call, ...] = ()
    "With the names of imported functions in full, such as `torch.multiprocessing.spawn`."
    imports: tuple[Import, ...] = ()
    variables: dict[str, Call] = {}
    "The environment variables that it sets to a constant `value`."
    texts: dict[str, int] = {}
    "The line of each constant text."
    fault: Fault | None = None
    uses: dict[str, frozenset[str]] = {}
    "The names that each function or class at its top level uses; those of the module have an empty key."
    has_main: bool = False
    "Whether it has `if __name__ == '__main__'`."


class TooDeep(ValueError):
    """A file that is nested too deeply for a syntax tree."""


def read_source(path: Path) -> Source | None:
    """What a Python file says; None if it cannot be read."""
    try:
        return source_of(read_text(path, LARGEST_FILE))
    except (OSError, ValueError):
        return None


def source_of(text: str) -> Source:
    """What the text of a Python file says.

    Raises:
        ValueError: it cannot be Python, such as a text with a NUL byte.
    """
    try:
        tree = tree_of(text)
    except SyntaxError as error:
        return Source(fault=_fault(error, text))
    try:
        return _said(tree)
    except RecursionError:
        raise TooDeep from None


def _said(tree: ast.Module) -> Source:
    found = _Found(_names(tree), dict(assigned(tree)))
    for statement in tree.body:
        inside = statement.name if isinstance(statement, _DEFINITIONS) else ""
        for node in ast.walk(statement):
            found.add(node, inside)
    return found.source()


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Found:
    """What the nodes of a syntax tree say, collected in one walk, which is most of the time of a reading."""

    def __init__(self, names: dict[str, str], constants: dict[str, Constant]) -> None:
        self._names, self._constants = names, constants
        self._calls: list[Call] = []
        self._imports: list[Import] = []
        self._variables: dict[str, Call] = {}
        self._texts: dict[str, int] = {}
        self._uses: dict[str, set[str]] = {}

    def add(self, node: ast.AST, inside: str) -> None:
        """Note what a node says."""
        match node:
            case ast.Call():
                call = _in_full(call_of(node, self._constants), self._names)
                self._calls.append(call._replace(inside=inside))
            case ast.ClassDef(bases=bases):
                full = [_full(dotted(base), self._names) for base in bases]
                self._calls += [
                    Call(name, node.lineno, {}, complete=False, is_base=True, inside=inside) for name in full
                ]
            case ast.Constant(value=str(text)):
                self._texts.setdefault(text, node.lineno)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                self._uses.setdefault(inside, set()).add(name)
            case ast.Import() | ast.ImportFrom():
                self._imports += _imports(node)
            case ast.Assign() if written := _written(node, self._names):
                self._variables.setdefault(*written)

    def source(self) -> Source:
        """All that was noted."""
        return Source(
            calls=tuple(self._calls),
            imports=tuple(self._imports),
            variables=self._variables,
            texts=self._texts,
            uses={name: frozenset(used) for name, used in self._uses.items()},
            has_main="__main__" in self._texts,
        )


def tree_of(text: str) -> ast.Module:
    """The syntax tree of a text.

    Raises:
        SyntaxError: Python does not compile it.
        ValueError: it cannot be Python, or is nested too deeply.
    """
    try:
        with catch_warnings():
            simplefilter("ignore")  # warnings about the user's code do not belong in the report
            return ast.parse(text)
    except (RecursionError, MemoryError):
        raise TooDeep from None


_LATER = re.compile(
    r"""^\s*(?:type|lazy)\s+\w|\b[tT][rR]?["']|\b[rR]?[fF][rR]?["']|^\s*(?:async\s+)?(?:def|class)\s+\w+\s*\[|\bexcept\*?\s"""
)
"What a line may begin or have by the syntax of a later Python: type aliases, template strings, and the like."
_LONGEST_LINE = 500


def _fault(error: SyntaxError, text: str) -> Fault:
    lines, number = text.split("\n"), error.lineno or 1
    line = lines[number - 1][:_LONGEST_LINE] if number <= len(lines) else ""
    return Fault(number, error.msg, certain=not _LATER.search(line))


def assigned(tree: ast.Module) -> Iterator[tuple[str, Constant]]:
    """Names that the module sets to a constant at its top level."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() | float()) as value
            ):
                yield name, _constant(value, {})


def call_of(node: ast.Call, names: dict[str, Constant]) -> Call:
    """A call; `names` has the names of constants."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    constants = {word.arg: _constant(word.value, names) for word in node.keywords if word.arg}
    complete = all(word.arg for word in node.keywords)
    owner = dotted(function).rpartition(".")[0]
    first = _constant(node.args[0], names) if node.args else None
    return Call(name, node.lineno, constants, complete, owner, len(node.args), first)


def dotted(node: ast.expr) -> str:
    """A name with its attributes; empty for another expression.

    >>> dotted(ast.parse("jax.distributed.initialize", mode="eval").body)
    'jax.distributed.initialize'
    """
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr, names: dict[str, Constant]) -> Constant:
    match node:
        case ast.Constant(value=int(value)) if abs(value) > _LARGEST:
            return UNKNOWN
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return len(items)
        case ast.Name(id=name):
            return names.get(name, UNKNOWN)
    return UNKNOWN


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, "", node.lineno) for alias in node.names)
    else:
        yield from (Import(_module(node), alias.name, node.lineno) for alias in node.names)


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            names |= {(top := alias.name.partition(".")[0]): top for alias in node.names if not alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{_module(node)}.{alias.name}" for alias in node.names}
    return names


def _full(name: str, names: dict[str, str]) -> str:
    """A name with what its first part stands for; empty for a name that is not imported.

    >>> _full("pl.Trainer", {"pl": "pytorch_lightning"}), _full("Trainer", {})
    ('pytorch_lightning.Trainer', '')
    """
    first, dot, rest = name.partition(".")
    return f"{names[first]}{dot}{rest}" if first in names else ""


def _in_full(call: Call, names: dict[str, str]) -> Call:
    name = f"{call.owner}.{call.name}" if call.owner else call.name
    return call._replace(name=_full(name, names))


def _written(node: ast.Assign, names: dict[str, str]) -> tuple[str, Call] | None:
    """An environment variable that `os.environ["WORLD_SIZE"] = "4"` and the like set to a constant."""
    match node:
        case ast.Assign(
            targets=[ast.Subscript(value=owner, slice=ast.Constant(value=str(name)))],
            value=ast.Constant(value=str(value)),
        ) if _full(dotted(owner), names) == "os.environ":
            return name, Call(name, node.lineno, {"value": value}, complete=True)
    return None
