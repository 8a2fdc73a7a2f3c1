"""A log file has the same name in every job.

## What it checks
Checks `--output` and `--error` for file names without the job ID and, in a job array, without the task index.
Logs opened with `--open-mode=append` are not reported, nor names that are placeholders, such as `<LOG_FILE>`.

## Why it matters
The next job or array task overwrites the log. Jobs that run at the same time mix their output.

## Example
    #SBATCH --output=train.out

## Use instead
    #SBATCH --output=train-%j.out

In a job array, use `%A_%a`.

## When to ignore
If only one job runs at a time and only its last log matters.

## Reference
https://slurm.schedmd.com/sbatch.html (filename pattern)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG111"
SEVERITY = "warning"
SUMMARY = "the next job overwrites the log"

_JOB = r"%\d*[jJA]"
_PLACEHOLDER = re.compile(r"<.*>|(.*/)?path/to/.*|([A-Z]+_)*(PATH|FILE|DIR|LOG)|your?[-_].*", re.DOTALL)
_TASK = r"%\d*[ajJ]"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search the file names for patterns that differ from job to job."""
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
            or _PLACEHOLDER.fullmatch(directive.value)
        ):
            continue
        if not re.search(_JOB, directive.value):
            yield Finding(
                directive.value_span,
                f"every job writes to {directive.value!r}",
                "add %j (job ID) to the file name",
            )
        elif header.last("array") and not re.search(_TASK, directive.value):
            yield Finding(
                directive.value_span,
                f"every task of the array writes to {directive.value!r}",
                "add %A_%a (array job ID and task index) to the file name",
            )
