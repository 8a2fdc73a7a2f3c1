"""The constant arguments of calls in a training script, read from its syntax tree."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from slurmgen.lint.reader import Launch, Script

Constant = str | int | float | bool | None
_LARGEST = 1_000_000


class Call(NamedTuple):
    """A call with its constant keyword arguments."""

    name: str
    line: int
    constants: dict[str, Constant]
    complete: bool
    "Whether all keywords are known; `**options` may contain others."

    def number(self, keyword: str, default: int | None = None) -> int | None:
        """The number of a keyword; `default` if the call is known to omit it; None if unknown."""
        if keyword not in self.constants:
            return default if self.complete else None
        value = self.constants[keyword]
        if isinstance(value, str) and value.isdigit():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_UNKNOWN = "unknown"
"The value of a keyword whose argument is not a constant."


def calls(script: Script, launch: Launch, name: str) -> tuple[Path | None, list[Call]]:
    """The path of the training script that a launch runs, if available, and its calls of a function."""
    path = training_script(script, launch)
    return path, [call for call in _calls(path) if call.name == name] if path else []


def training_script(script: Script, launch: Launch) -> Path | None:
    """The training script on this machine: next to the batch script, or in the current directory."""
    word = launch.script
    if script.path is None or word is None or not word.known or not word.text.endswith(".py"):
        return None
    candidates = [folder / word.text for folder in (script.path.parent, Path.cwd())]
    return next((path for path in candidates if path.is_file()), None)


@lru_cache(maxsize=64)
def _calls(path: Path) -> tuple[Call, ...]:
    try:
        if path.stat().st_size > _LARGEST:
            return ()
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    constants = dict(_assigned(tree))
    return tuple(_call(node, constants) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Constant]]:
    """Names that the module sets to a constant at its top level."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() | float() as value)
            ):
                yield name, value


def _call(node: ast.Call, names: dict[str, Constant]) -> Call:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    constants = {word.arg: _constant(word.value, names) for word in node.keywords if word.arg}
    return Call(name, node.lineno, constants, all(word.arg for word in node.keywords))


def _constant(node: ast.expr, names: dict[str, Constant]) -> Constant:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return len(items)
        case ast.Name(id=name):
            return names.get(name, _UNKNOWN)
    return _UNKNOWN
