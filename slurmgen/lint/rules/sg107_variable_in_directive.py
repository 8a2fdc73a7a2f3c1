"""A directive has a shell variable in it.

## What it finds
`$NAME`, `${NAME}`, `$(command)` and backticks in the value of a directive.

## Why it is bad
sbatch reads the header itself and expands nothing: the log goes to a file whose name begins with a dollar
sign, and a number is refused.

## Example
    #SBATCH --output=$HOME/logs/%j.out

## Use instead
    #SBATCH --output=/home/me/logs/%j.out

Slurm's own patterns, such as `%j`, `%x` and `%u`, are expanded in file names.

## Reference
https://slurm.schedmd.com/sbatch.html ; mila-iqia/mila-docs issue 6
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG107"
SEVERITY = "error"
SUMMARY = "sbatch expands no variable in a directive"

_EXPANSION = r"\$[A-Za-z_{(]|`"
_PLAIN_TEXT = ("comment", "wrap")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for a dollar sign or a backtick in values."""
    for directive in script.header.directives:
        if re.search(_EXPANSION, directive.value) and directive.name not in _PLAIN_TEXT:
            yield Finding(
                directive.value_span,
                f"sbatch takes {directive.value!r} as it stands and expands nothing",
                "write the value itself; in a file name, %j is the job's id, %x its name and %u the user",
            )
