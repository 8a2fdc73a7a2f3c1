"""The changes of a file as a patch that `git apply` takes."""

import os
import re
from difflib import unified_diff
from pathlib import Path

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def patch(name: str, before: str, after: str) -> str:
    """A unified diff with the file's path relative to the current folder; empty without a change."""
    path = _relative(name)
    # A tab ends a file name that contains a blank.
    end = "\t" if " " in path else ""
    lines = unified_diff(_LINE.findall(before), _LINE.findall(after), f"a/{path}{end}", f"b/{path}{end}")
    return "".join(line if line.endswith("\n") else line + _NO_NEWLINE for line in lines)


def _relative(name: str) -> str:
    path = Path(os.path.normpath(name))
    folder = Path.cwd()
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix().lstrip("/")
