"""`set +e` takes back `set -e` long before the step.

## What it finds
`set +e` after `set -e`, with other commands between it and the launch, and no `set -e` again before that.

## Why it is bad
What prepares the step may now fail unnoticed: the lookup of the first node, a `cd`, a module. Only the
step's own exit code needs `set +e`.

## Example
    set -e
    set +e
    cd /data/run
    srun python train.py

## Use instead
    set -e
    cd /data/run
    code=0
    srun python train.py || code=$?

## Reference
https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG509"
SEVERITY = "warning"
SUMMARY = "set +e hides failures before the step"

_NOISE = ("echo", "date", "printf", ":")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at what lies between `set +e` and the first launch after it."""
    starts = {launch.command.span.start for launch in script.launches}
    switched_off: Command | None = None
    hidden = False
    for command in sorted(script.commands, key=lambda command: command.span.start):
        if command.span.start in starts:
            if switched_off and hidden:
                yield _finding(switched_off)
            switched_off = None
        elif command.name == "set":
            switched_off = command if "+e" in command.texts and "errexit" in command.settings else None
            hidden = False
        else:
            hidden |= command.name not in _NOISE


def _finding(command: Command) -> Finding:
    return Finding(
        command.span,
        "from here on failures go unnoticed, also those before the step",
        "take it out, and catch the step's exit code with `srun ... || code=$?`",
    )
