"""The shell cannot parse the script.

## What it checks
If the commands do not fit the grammar of bash, asks `bash -n`, which runs none of them. The rules about
commands do not apply to a script that bash cannot parse.

## Why it matters
The job runs up to the fault, often only to the end of the header, and fails there.

## Example
    if [ -d data ]; then
      srun python train.py

## Use instead
    if [ -d data ]; then
      srun python train.py
    fi

## When to ignore
In a template that is filled in before it is submitted.

## Reference
https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html (-n)
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG518"
SEVERITY = "error"
SUMMARY = "the shell cannot parse the script"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the fault at the line that bash names."""
    if fault := script.shell.fault:
        line = min(fault.line, len(script.source.line_starts))
        span = script.source.line_span(script.source.line_starts[line - 1])
        yield Finding(
            span._replace(end=max(span.start, span.end - 1)),
            f"bash cannot parse the script: {fault.message}",
            "close each quote, bracket and block, and check the script with `bash -n`",
        )
