"""A directive contains a shell variable.

## What it checks
Checks the values of options for `$NAME`, `${NAME}`, `$(command)` and backticks. `--comment` and `--wrap` are
not checked.

## Why it matters
sbatch reads the header itself and expands nothing. A log is written to a file whose name contains a literal
dollar sign, and a number is rejected.

## Example
    #SBATCH --output=$HOME/logs/%j.out

## Use instead
    #SBATCH --output=/home/me/logs/%j.out

In file names, Slurm expands its own patterns, such as `%j`, `%x` and `%u`.

## When to ignore
If a template expands the variable before the script is submitted.

## Reference
https://slurm.schedmd.com/sbatch.html ; mila-iqia/mila-docs issue 6
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG107"
SEVERITY = "error"
SUMMARY = "sbatch does not expand variables in a directive"

_EXPANSION = r"\$[A-Za-z_{(]|`"
_PLAIN_TEXT = ("comment", "wrap")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search the values for shell expansions."""
    for directive in script.header.directives:
        if re.search(_EXPANSION, directive.value) and directive.name not in _PLAIN_TEXT:
            yield Finding(
                directive.value_span,
                f"sbatch does not expand {directive.value!r}",
                "write the literal value; in a file name, use %j (job ID), %x (job name) or %u (user)",
            )
