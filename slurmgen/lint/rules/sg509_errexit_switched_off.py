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

## Reference
https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG509"
SEVERITY = "warning"
SUMMARY = "set +e ignores failures before the step"

_CANNOT_FAIL = ("set", "echo", "date", "printf", ":")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the commands between `set +e` and the first launch after it."""
    starts = [launch.command.span.start for launch in script.launches]
    for command in script.commands:
        if command.name != "set" or "+e" not in command.texts or "errexit" not in command.settings:
            continue
        launch = next((start for start in starts if start > command.span.start), 0)
        between = [c for c in script.commands if command.span.end < c.span.start < launch]
        if any(_can_fail(c) for c in between) and not any(c.name == "set" for c in between):
            yield Finding(
                command.span,
                "failures of the commands between this line and the step are ignored",
                "delete the line, and store the exit code of the step: `srun ... || code=$?`",
            )


def _can_fail(command: Command) -> bool:
    return command.name not in _CANNOT_FAIL
