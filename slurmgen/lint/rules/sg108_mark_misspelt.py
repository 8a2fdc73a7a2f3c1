"""A line is meant for sbatch, but does not begin with `#SBATCH`.

## What it finds
In the header, `# SBATCH --option`; anywhere, `SBATCH --option` without the `#`. `##SBATCH`, the usual way
to switch a directive off, passes.

## Why it is bad
With a blank it is a comment, and without `#` a command that does not exist, after which sbatch also ignores
every directive.

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
SUMMARY = "a line for sbatch does not begin with #SBATCH"

_SPACED = re.compile(r"^(# +|#)S?BATCH (?=--?[A-Za-z])", re.MULTILINE | re.IGNORECASE)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at comments of the header, and for a command named SBATCH."""
    for match in _SPACED.finditer(script.source.plain, 0, script.header.end):
        if not match[0].startswith("#SBATCH"):
            span = Span(match.start(), match.end() - 1)
            yield Finding(
                span, "sbatch takes this line for a comment", "write `#SBATCH`", (Edit(span, "#SBATCH"),)
            )
    for command in script.commands:
        if command.name == "SBATCH":
            span = command.words[0].span
            yield Finding(
                span, "SBATCH is no command; the # is missing", "write `#SBATCH`, above every command"
            )
