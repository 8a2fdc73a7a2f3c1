"""Lines end as on Windows.

## What it finds
A carriage return at the end of a line.

## Why it is bad
sbatch refuses the file: "Batch script contains DOS line breaks".

## Example
    #!/bin/bash\\r\\n

## Use instead
    #!/bin/bash\\n

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.wording import counted

CODE = "SG102"
SEVERITY = "error"
SUMMARY = "lines end as on Windows"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for carriage returns before newlines; one finding for the file."""
    places = [match.start() for match in re.finditer("\r\n", script.source.text)]
    if places:
        yield Finding(
            Span(places[0], places[0] + 1),
            f"{counted(len(places), 'line')} with a carriage return at the end, so sbatch refuses the file",
            "save it with Unix line ends, as `dos2unix` does",
            tuple(Edit(Span(at, at + 1), "") for at in places),
        )
