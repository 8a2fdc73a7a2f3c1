"""The syntax tree of a shell text, in limited time.

tree-sitter cannot be interrupted, and text that is not shell code can take minutes: the time grows with the
square of the length (https://github.com/tree-sitter/tree-sitter/issues/4019). Another process therefore
parses a long text first, and the kernel ends it after a time limit.
"""

import re
import subprocess
import sys
from contextvars import ContextVar
from functools import lru_cache

from tree_sitter import Language, Node, Parser

from slurmgen.lint.reader import trial
from slurmgen.lint.reader.commands import Fault
from slurmgen.lint.reader.source import Budget, TooLarge

_SQUARE = 96
"Squared characters in one step: the slowest known text of 7,000 characters takes a second."
_RESERVE = 250_000
"Steps of the budget that parsing a long text leaves for everything else."
_SMALL = 1500
"Characters of a text that never needs another process."
_LONGEST = 200
"Characters of a message of bash."
_TRIAL = 50_000
"Steps of the budget for starting a process."


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language()))


def parse(text: str, budget: Budget) -> Node:
    """The root of the tree.

    Raises:
        TooLarge: the parser may not terminate.
    """
    code = text.encode()
    cost = len(code) ** 2 // _SQUARE
    if len(code) <= _SMALL or cost + _RESERVE <= budget.left:
        budget.spend(cost)
    else:
        budget.spend(_TRIAL)
        _try_out(code)
    return _parser().parse(code).root_node


_BASH = ("/bin/bash", "--norc", "--noprofile", "-O", "extglob", "-n")
ASKS_BASH = ContextVar("ASKS_BASH", default=True)
"Whether bash may read a text. The process of the web server starts none; its workers, with limits, may."
_SECONDS = 2.0
"Time limit of bash, which parses 1 MB in a tenth of it."
_FAULT = re.compile(r"(?m)^\S+: line (\d+): (.*)$")


def fault_of(text: str) -> Fault | None:
    """Why bash cannot parse a text, which it does not run; None if it can, or if bash may not be started."""
    if not ASKS_BASH.get():
        return None
    try:
        reply = subprocess.run(
            _BASH,
            input=text.encode(),
            env={"LC_ALL": "C"},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _FAULT.search(reply.stderr.decode(errors="replace")) if reply.returncode else None
    return Fault(int(found[1]), found[2][:_LONGEST]) if found else None


def _try_out(code: bytes) -> None:
    # Without site and environment: the same modules as here, from the same folders.
    command = [sys.executable, "-I", "-S", trial.__file__, *sys.path]
    done = subprocess.run(command, input=code, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise TooLarge
