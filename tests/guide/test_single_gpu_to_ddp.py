"""The steps of docs/guide/single-gpu-to-ddp.md lead from one script to the other."""

import ast

from .pages import blocks
from .running import GUIDE

BEFORE, AFTER = "single_gpu_to_ddp_before.py", "single_gpu_to_ddp.py"


def code(script: str) -> str:
    """A script without its docstring."""
    text = (GUIDE / script).read_text()
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno :])


def side(diff: str, signs: str) -> str:
    """The lines of a diff that begin with one of `signs`."""
    return "\n".join(line[1:] for line in diff.splitlines() if line[:1] in signs)


def test_the_steps_of_the_page_turn_one_script_into_the_other() -> None:
    text = code(BEFORE)
    for diff in blocks("single-gpu-to-ddp", "diff"):
        old = side(diff, " -")
        assert text.count(old) == 1, old
        text = text.replace(old, side(diff, " +"))
    assert text == code(AFTER)
