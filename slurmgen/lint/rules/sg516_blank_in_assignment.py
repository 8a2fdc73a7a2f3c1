"""A blank before the equals sign makes an assignment a command.

## What it checks
Checks for commands such as `NAME = value` and `NAME =value`, outside `[`, `test` and `(( ))`.

## Why it matters
The shell runs a program called NAME, with `=` as its first argument: "NAME: command not found". The variable
stays unset, and without `set -e` the script continues with an empty value.

## Example
    data = /scratch/data
    python train.py --data "$data"

## Use instead
    data=/scratch/data
    python train.py --data "$data"

## When to ignore
If a program of this name exists and takes `=` as an argument.

## Reference
https://www.shellcheck.net/wiki/SC2283
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG516"
SEVERITY = "error"
SUMMARY = "a blank before the equals sign makes an assignment a command"

_NAME = re.compile(r"[A-Za-z_]\w*")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the first two words of each command."""
    for command in script.commands:
        first, *rest = command.words
        if rest and _NAME.fullmatch(first.raw) and rest[0].raw.startswith("=") and first.raw != "test":
            yield Finding(
                first.span,
                f"the shell runs {first.raw!r} as a command, and does not set the variable",
                f"write `{first.raw}=` without blanks",
            )
