"""`scontrol | head` can end a script with `set -e -o pipefail`.

## What it finds
`scontrol show hostnames ... | head -n 1` where both errexit and pipefail are set.

## Why it is bad
head leaves after the first line. If scontrol is still writing it dies of SIGPIPE, the pipeline fails, and the
job ends with exit code 141: rarely, and mostly with many nodes.

## Example
    set -eo pipefail
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

## Use instead
    set -eo pipefail
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)

## Reference
https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
"""

from collections.abc import Iterator
from itertools import pairwise

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG309"
SEVERITY = "warning"
SUMMARY = "head may end the script with SIGPIPE"

_FIRST_LINE = (["-n", "1"], ["-n1"], ["-1"], ["--lines=1"])


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for scontrol piped into head."""
    for before, command in pairwise(script.commands):
        if before.name == "scontrol" and _is_fragile(command):
            yield Finding(
                command.span,
                "head may close the pipe early; with errexit and pipefail the script then ends here",
                "write `sed -n 1p`, which reads to the end",
                (Edit(command.span, "sed -n 1p"),),
            )


def _is_fragile(command: Command) -> bool:
    last = command.place[-1:] == ("last in pipe",)
    return (
        command.name == "head"
        and last
        and command.texts[1:] in _FIRST_LINE
        and {"errexit", "pipefail"} <= command.settings
    )
