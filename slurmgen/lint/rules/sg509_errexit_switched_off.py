"""`set +e` disables `set -e` long before the step.

## What it checks
Checks for `set +e` after `set -e` if other commands follow before the launch, without another `set` among
them.

## Why it matters
A failure of the preparation, such as the lookup of the first node, a `cd` or a `module load`, is ignored.
Only the exit code of the step needs special handling.

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

## When to ignore
If the commands before the step are allowed to fail.

## Reference
https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG509"
SEVERITY = "warning"
SUMMARY = "set +e ignores failures before the step"

_CANNOT_FAIL = ("echo", "date", "printf", ":")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the commands between `set +e` and the first launch after it."""
    starts = {launch.command.span.start for launch in script.launches}
    switched_off: Command | None = None
    hidden = False
    for command in sorted(script.commands, key=lambda command: command.span.start):
        if command.span.start in starts:
            if switched_off and hidden and "errexit" not in command.settings:
                yield _finding(switched_off)
            switched_off = None
        elif command.name == "set":
            switched_off = command if "+e" in command.texts and "errexit" in command.settings else None
            hidden = False
        else:
            hidden |= command.name not in _CANNOT_FAIL


def _finding(command: Command) -> Finding:
    return Finding(
        command.span,
        "failures of the commands between this line and the step are ignored",
        "delete the line, and store the exit code of the step: `srun ... || code=$?`",
    )
