"""A pipe hides the exit code of a launch.

## What it checks
Checks for a launch that is piped into another program, such as tee, without `set -o pipefail`. Scripts that
use `PIPESTATUS` are not reported.

## Why it matters
The exit code of a pipe is that of its last program. If tee succeeds, Slurm reports COMPLETED although
training failed, and dependent jobs start.

## Example
    srun python train.py | tee train.log

## Use instead
    set -o pipefail
    srun python train.py | tee train.log

## When to ignore
If the state of the job does not matter.

## Reference
https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG506"
SEVERITY = "warning"
SUMMARY = "a pipe hides the exit code of a launch"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for launches that are not the last command of a pipe."""
    for launch in script.launches:
        command = launch.command
        piped = "pipe" in command.place and "output" not in command.place
        if piped and "pipefail" not in command.settings and "PIPESTATUS" not in script.source.plain:
            yield Finding(
                launch.span,
                "the pipe hides a failure of this command: Slurm reports COMPLETED",
                "write `set -o pipefail` before this line",
            )
