"""What a training script says of itself: the constants in its calls, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

from slurmgen.files import read_text
from slurmgen.lint.reader import Launch, Script

Constant = str | int | float | bool | None
_LARGEST = 10**9
"Of a whole number that counts something."
_NUMBER = re.compile("[0-9]{1,9}")


class Call(NamedTuple):
    """A call with what is constant in its keywords."""

    name: str
    line: int
    constants: dict[str, Constant]
    complete: bool
    "No keyword is hidden in a dictionary."

    def number(self, keyword: str, otherwise: int | None = None) -> int | None:
        """The number that a keyword gives; `otherwise` if it is certainly left out."""
        if keyword not in self.constants:
            return otherwise if self.complete else None
        value = self.constants[keyword]
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_UNKNOWN = "unknown"
"What a keyword holds whose value is no constant."


def calls(script: Script, launch: Launch, name: str) -> tuple[Path | None, list[Call]]:
    """The calls of one name in the script that a launch runs, if it is at hand, and where that is."""
    path = training_script(script, launch)
    return path, [call for call in _calls(path) if call.name == name] if path else []


def training_script(script: Script, launch: Launch) -> Path | None:
    """The training script on this machine: beside the batch script, or from the folder you are in."""
    word = launch.script
    if script.path is None or word is None or not word.known or not word.text.endswith(".py"):
        return None
    candidates = [place / word.text for place in (script.path.parent, Path.cwd())]
    return next((path for path in candidates if path.is_file()), None)


@lru_cache(maxsize=64)
def _calls(path: Path) -> tuple[Call, ...]:
    try:
        with catch_warnings():
            simplefilter("ignore")  # of the user's code, and no part of the report
            tree = ast.parse(read_text(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last if nested too deeply
        return ()
    constants = dict(_assigned(tree))
    return tuple(_call(node, constants) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Constant]]:
    """Names that the module sets once, at its top, to a constant."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() | float()) as value
            ):
                yield name, _constant(value, {})


def _call(node: ast.Call, names: dict[str, Constant]) -> Call:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    said = {word.arg: _constant(word.value, names) for word in node.keywords if word.arg}
    return Call(name, node.lineno, said, all(word.arg for word in node.keywords))


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
