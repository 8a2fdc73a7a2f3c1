"""A command is stored in a string variable and split into words.

## What it checks
Checks for a launcher that comes from an unquoted string variable, such as `srun $CMD`, if the string contains
a quoted part with a space, which the quotes do not keep together.

## Why it matters
The shell splits the string at every space; quotes inside the string have no effect. A path with a space, or a
JSON argument, breaks the command.

## Example
    CMD="torchrun --standalone train.py --name 'my run'"
    srun $CMD

## Use instead
    cmd=(torchrun --standalone train.py --name 'my run')
    srun "${cmd[@]}"

## When to ignore
If the quotes in the string are meant for the program.

## Reference
https://www.shellcheck.net/wiki/SC2086 ; stanford-crfm/helm pull request 1636
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import in_force

CODE = "SG505"
SEVERITY = "warning"
SUMMARY = "a command in a string is split at every space"

_QUOTED = re.compile(r"""(['"])(.*?)\1""", re.DOTALL)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check where the name of each launcher comes from; arrays and "$@" keep their words."""
    for launch in script.launches:
        word = launch.word
        is_array = any(mark in word.raw for mark in ("[@]", "[*]", "$@", "$*", "${@"))
        if word.spliced and not is_array and _is_harmed(script, launch):
            yield Finding(
                word.span,
                f"the shell splits {word.raw} at every space, even inside quotes, and keeps the quotes",
                'store the command in an array: `cmd=(...)`, then `"${cmd[@]}"`',
            )


def _is_harmed(script: Script, launch: Launch) -> bool:
    values = [found.value for found in in_force(script, launch, set(launch.word.names))]
    return any(" " in part for value in values for _, part in _QUOTED.findall(value))
