"""A line intended for sbatch does not start with `#SBATCH`.

## What it checks
Checks the header for comments that look like directives, such as `# SBATCH --option` or `#BATCH --option`,
and the whole script for a command named `SBATCH`. `##SBATCH`, the usual way to disable a directive, is not
reported.

## Why it matters
sbatch ignores the comment. `SBATCH` without the `#` is a command that does not exist, and sbatch ignores
every directive after it.

## Example
    # SBATCH --gres=gpu:4
    SBATCH --signal=USR2@90

## Use instead
    #SBATCH --gres=gpu:4
    #SBATCH --signal=USR2@90

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG108"
SEVERITY = "warning"
SUMMARY = "a line for sbatch does not start with #SBATCH"

_SPACED = re.compile(r"^(# +|#)S?BATCH (?=--?[A-Za-z])", re.MULTILINE | re.IGNORECASE)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the comments of the header, and the commands for one named SBATCH."""
    for match in _SPACED.finditer(script.source.plain, 0, script.header.end):
        if not match[0].startswith("#SBATCH"):
            span = Span(match.start(), match.end() - 1)
            yield Finding(
                span, "sbatch treats this line as a comment", "write `#SBATCH`", (Edit(span, "#SBATCH"),)
            )
    for command in script.commands:
        if command.name == "SBATCH":
            span = command.words[0].span
            yield Finding(
                span, "SBATCH is not a command: the # is missing", "write `#SBATCH`, above the first command"
            )
