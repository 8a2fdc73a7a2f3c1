"""conda is used in a way that a batch shell does not know.

## What it finds
`source activate`, and `conda activate` with nothing before it that could set conda up: no file is sourced,
no module loaded, nothing evaluated, and the shell is not a login shell.

## Why it is bad
`conda activate` is a shell function that your .bashrc defines; a batch script does not read it. `source
activate` is the form of 2017 and finds another script, or none.

## Example
    source activate torch

## Use instead
    eval "$(conda shell.bash hook)"
    conda activate torch

## Reference
conda/conda issue 9193
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG502"
SEVERITY = "warning"
SUMMARY = "conda is not set up in a batch shell"

_SETS_UP = ("source", ".", "eval", "module", "ml", "spack")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at every activation, and at what comes before it."""
    login = any("l" in word for word in script.first_line.split()[1:] if word.startswith("-"))
    is_set_up = login
    for command in script.commands:
        if command.name in ("source", ".") and command.texts[1:2] == ["activate"]:
            yield _finding(command, "`source activate` finds no script, or another one")
        elif command.name == "conda" and command.texts[1:2] == ["activate"] and not is_set_up:
            yield _finding(command, "nothing has set conda up here")
            return
        is_set_up |= command.name in _SETS_UP and command.texts[1:2] != ["activate"]


def _finding(command: Command, fact: str) -> Finding:
    return Finding(command.span, fact, 'write `eval "$(conda shell.bash hook)"`, then `conda activate NAME`')
