"""What shell builtins change: settings, and variables whose values are unknown afterwards."""

import re
from collections.abc import Callable
from typing import Protocol

from slurmgen.lint.reader.source import UNKNOWN
from slurmgen.lint.reader.words import Expander

_SETTINGS = {"e": "errexit", "u": "nounset"}
_HARMLESS = r"(activate|conda\.sh|/etc/profile\S*|lmod\S*|modules?\S*|/init/\w+|\.bashrc|\.bash_profile)$"
"Files that set up a tool and do not change the script's variables."


class State(Protocol):
    """What a builtin can change."""

    expander: Expander
    settings: set[str]
    sourced: bool


def _set(state: State, arguments: list[str]) -> None:
    for at, word in enumerate(arguments):
        if word[:1] not in "+-" or word in ("--", "-"):
            return
        change = state.settings.add if word[0] == "-" else state.settings.discard
        for letter in word[1:] if not word.startswith("--") else "":
            if letter in _SETTINGS:
                change(_SETTINGS[letter])
            elif letter == "o" and at + 1 < len(arguments):
                change(arguments[at + 1])


def _source(state: State, arguments: list[str]) -> None:
    if not arguments or not re.search(_HARMLESS, arguments[0]):
        _forget(state, arguments)


def _forget(state: State, _arguments: list[str]) -> None:
    state.sourced = True
    variables = state.expander.variables
    state.expander.budget.spend(len(variables) // 8)
    for name in variables:
        if not name.startswith("SLURM_"):
            variables[name] = UNKNOWN if not isinstance(variables[name], tuple) else (UNKNOWN,)


def _read(state: State, arguments: list[str]) -> None:
    for name in arguments:
        if name.isidentifier():
            state.expander.variables[name] = UNKNOWN


def _read_array(state: State, arguments: list[str]) -> None:
    for name in arguments:
        if name.isidentifier():
            state.expander.variables[name] = (UNKNOWN,)


EFFECTS: dict[str, Callable[[State, list[str]], None]] = {
    "set": _set,
    "source": _source,
    ".": _source,
    "eval": _forget,
    "read": _read,
    "mapfile": _read_array,
    "readarray": _read_array,
}
"The effects by the name of the builtin."
