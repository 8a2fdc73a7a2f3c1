"""The script has Windows line endings.

## What it checks
Checks for carriage returns at the ends of lines.

## Why it matters
sbatch rejects the file: "Batch script contains DOS line breaks".

## Example
    #!/bin/bash\\r\\n

## Use instead
    #!/bin/bash\\n

## When to ignore
Never: sbatch rejects the file.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.text import counted

CODE = "SG102"
SEVERITY = "error"
SUMMARY = "the script has Windows line endings"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report all carriage returns before newlines as one finding."""
    places = [match.start() for match in re.finditer("\r\n", script.source.text)]
    if places:
        yield Finding(
            Span(places[0], places[0] + 1),
            f"{counted(len(places), 'line')} with Windows line endings, so sbatch rejects the file",
            "convert the file to Unix line endings, for example with `dos2unix`",
            tuple(Edit(Span(at, at + 1), "") for at in places),
            safe=True,
        )
