"""`scontrol | head` can end a script that sets errexit and pipefail.

## What it checks
Checks for `scontrol ... | head -n 1` in scripts that set both errexit (`set -e`) and pipefail. `export
NAME=$(...)` is not reported: export hides the exit status.

## Why it matters
head exits after the first line. If scontrol is still writing, it is killed by SIGPIPE, the pipeline fails,
and the job ends with exit code 141. This happens rarely, and mostly in jobs with many nodes.

## Example
    set -eo pipefail
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

## Use instead
    set -eo pipefail
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)

## When to ignore
If the job has few nodes: the list then fits into the buffer of the pipe.

## Reference
https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG309"
SEVERITY = "warning"
SUMMARY = "head may end the script with exit code 141 (SIGPIPE)"

_DECLARES = re.compile(r"\b(?:export|declare|typeset|local|readonly)\b[^;&|]*$")
"A builtin whose exit status replaces that of the commands in its arguments."
_FIRST_LINE = (["-n", "1"], ["-n1"], ["-1"], ["--lines=1"])


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for scontrol piped into head."""
    for before, command in pairwise(script.commands):
        if before.name == "scontrol" and _is_fragile(command) and not _is_hidden(script, before):
            yield Finding(
                command.span,
                "head may close the pipe early, which ends the script under errexit and pipefail",
                "write `sed -n 1p`, which reads all of its input",
                (Edit(command.span, "sed -n 1p"),),
                safe=True,
            )


def _is_hidden(script: Script, command: Command) -> bool:
    start = command.span.start
    return bool(_DECLARES.search(script.source.plain[script.source.line_span(start).start : start]))


def _is_fragile(command: Command) -> bool:
    last = command.place[-1:] == ("last in pipe",)
    return (
        command.name == "head"
        and last
        and command.texts[1:] in _FIRST_LINE
        and {"errexit", "pipefail"} <= command.settings
    )
