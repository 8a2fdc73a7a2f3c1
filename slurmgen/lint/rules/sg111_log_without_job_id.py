"""A log file has the same name in every job.

## What it finds
`--output` or `--error` without the job's id, except with `--open-mode=append`; in an array, without the
task's index.

## Why it is bad
The next job, or the next task, overwrites the log. Two that run at once mix their lines.

## Example
    #SBATCH --output=train.out

## Use instead
    #SBATCH --output=train-%j.out

In an array, `%A_%a`.

## Reference
https://slurm.schedmd.com/sbatch.html (filename pattern)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG111"
SEVERITY = "warning"
SUMMARY = "the next job overwrites this log"

_JOB = r"%\d*[jJA]"
_TASK = r"%\d*[ajJ]"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for the patterns that differ from job to job."""
    header = script.header
    if (header.value("open-mode") or "").startswith("a"):
        return
    for name in ("output", "error"):
        directive = header.last(name)
        if (
            directive is None
            or not directive.value
            or directive.value.startswith("/dev/")
            or "$" in directive.value
        ):
            continue
        if not re.search(_JOB, directive.value):
            yield Finding(
                directive.value_span,
                f"every job writes to {directive.value!r}",
                "put %j, the job's id, into the name",
            )
        elif header.last("array") and not re.search(_TASK, directive.value):
            yield Finding(
                directive.value_span,
                f"every task of the array writes to {directive.value!r}",
                "put %A_%a, the array's id and the task's index, into the name",
            )
