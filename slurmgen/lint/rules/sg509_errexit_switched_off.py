"""`set +e` takes back `set -e` long before the step.

## What it finds
`set +e` after `set -e`, with other commands between it and the launch, and no `set -e` again before that.

## Why it is bad
What prepares the step may now fail unnoticed: the lookup of the first node, a `cd`, a module. Only the step's
own exit code needs `set +e`.

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

_NOISE = ("set", "echo", "date", "printf", ":")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at what lies between `set +e` and the first launch after it."""
    starts = [launch.command.span.start for launch in script.launches]
    for command in script.commands:
        if command.name != "set" or "+e" not in command.texts or "errexit" not in command.settings:
            continue
        launch = next((start for start in starts if start > command.span.start), 0)
        between = [c for c in script.commands if command.span.end < c.span.start < launch]
        if any(_counts(c) for c in between) and not any(c.name == "set" for c in between):
            yield Finding(
                command.span,
                "from here on failures go unnoticed, also those before the step",
                "take it out, and catch the step's exit code with `srun ... || code=$?`",
            )


def _counts(command: Command) -> bool:
    return command.name not in _NOISE
