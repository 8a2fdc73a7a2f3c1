"""A pipe hides that training failed.

## What it finds
A launch piped into another program, such as tee, without `set -o pipefail`.

## Why it is bad
The exit code of a pipe is that of its last program. tee succeeds, Slurm notes COMPLETED, and jobs that depend
on this one start.

## Example
    srun python train.py | tee train.log

## Use instead
    set -o pipefail
    srun python train.py | tee train.log

## Reference
https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG506"
SEVERITY = "warning"
SUMMARY = "a pipe hides that training failed"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for launches in a pipe, but not in the last place of it."""
    for launch in script.launches:
        command = launch.command
        piped = "pipe" in command.place and "output" not in command.place
        if piped and "pipefail" not in command.settings and "PIPESTATUS" not in script.source.plain:
            yield Finding(
                launch.span,
                "the pipe succeeds although this fails; Slurm notes COMPLETED",
                "write `set -o pipefail` before it",
            )
