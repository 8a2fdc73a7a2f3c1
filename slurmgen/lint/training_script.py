"""The constant arguments of calls in a training script, read from its syntax tree."""

import ast
from functools import lru_cache
from pathlib import Path

from slurmgen.files import read_text
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.source import Budget, TooLarge
from slurmgen.python_source import LARGEST_FILE, Call, assigned, call_of, tree_of

_BYTE = 3
"Steps of the budget for each byte of Python."


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
    found: dict[str, list[Call]] = {}
    try:
        text = read_text(path, LARGEST_FILE)
        budget.spend(_BYTE * len(text))
        tree = tree_of(text)
        constants = dict(assigned(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                call = call_of(node, constants)
                found.setdefault(call.name, []).append(call)
    except (OSError, SyntaxError, ValueError, RecursionError):  # the last one if it is nested too deeply
        return {}
    return found
