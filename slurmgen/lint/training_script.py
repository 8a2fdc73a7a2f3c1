"""The constant arguments of calls in a training script, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

from slurmgen.files import read_text
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.source import Budget, TooLarge

Constant = str | int | float | bool | None


_LARGEST_FILE = 200_000
"Size limit of a training script, in bytes."


_BYTE = 3
"Steps of the budget for each byte of Python."


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

    def number(self, keyword: str, default: int | None = None) -> int | None:
        """The number of a keyword; `default` if the call is known to omit it; None if unknown."""
        if keyword not in self.constants:
            return default if self.complete else None
        value = self.constants[keyword]
        if isinstance(value, str):
            return int(value) if _NUMBER.fullmatch(value) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_UNKNOWN = "unknown"
"The value of a keyword whose argument is not a constant."


def calls(script: Script, launch: Launch, name: str) -> tuple[Path | None, list[Call]]:
    """The path of the training script that a launch runs, if available, and its calls of a function."""
    path = training_script(script, launch)
    return path, _calls_named(name, path, script.budget) if path else []


def _calls_named(name: str, path: Path, budget: Budget) -> list[Call]:
    try:
        found = _calls(path, budget).get(name, [])
        budget.spend(len(found))
    except TooLarge:
        return []
    return found


def training_script(script: Script, launch: Launch) -> Path | None:
    """The training script on this machine: next to the batch script, or in the current directory."""
    word = launch.script
    if script.path is None or word is None or not word.known or not word.text.endswith(".py"):
        return None
    candidates = [folder / word.text for folder in (script.path.parent, Path.cwd())]
    return next((path for path in candidates if path.is_file()), None)


@lru_cache(maxsize=64)
def _calls(path: Path, budget: Budget) -> dict[str, list[Call]]:
    """The calls in a Python file by name; none if it cannot be read. The batch script pays for it."""
    try:
        text = read_text(path, _LARGEST_FILE)
        budget.spend(_BYTE * len(text))
        with catch_warnings():
            simplefilter("ignore")  # warnings about the user's code do not belong in the report
            tree = ast.parse(text)
        constants = dict(_assigned(tree))
        found: dict[str, list[Call]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                call = _call(node, constants)
                found.setdefault(call.name, []).append(call)
    except (
        OSError,
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # RecursionError if it is nested too deeply
        return {}
    return found


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Constant]]:
    """Names that the module sets to a constant at its top level."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() | float()) as value
            ):
                yield name, _constant(value, {})


def _call(node: ast.Call, names: dict[str, Constant]) -> Call:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    constants = {word.arg: _constant(word.value, names) for word in node.keywords if word.arg}
    complete = all(word.arg for word in node.keywords)
    return Call(name, node.lineno, constants, complete, _dotted(function).rpartition(".")[0], len(node.args))


def _dotted(node: ast.expr) -> str:
    """A name with its attributes; empty for another expression.

    >>> _dotted(ast.parse("jax.distributed.initialize", mode="eval").body)
    'jax.distributed.initialize'
    """
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr, names: dict[str, Constant]) -> Constant:
    match node:
        case ast.Constant(value=int(value)) if abs(value) > _LARGEST:
            return _UNKNOWN
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return len(items)
        case ast.Name(id=name):
            return names.get(name, _UNKNOWN)
    return _UNKNOWN
