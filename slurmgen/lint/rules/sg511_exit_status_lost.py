"""A later command hides the exit status of the last launch.

## What it checks
Checks for scripts without `set -e` in which commands that cannot fail, such as `echo`, follow the last
launch, and that do not read its exit status.

## Why it matters
The exit status of a job is that of the last command of its script. Slurm reports COMPLETED although training
failed, and dependent jobs start.

## Example
    srun python train.py
    echo "done"

## Use instead
    set -e
    srun python train.py
    echo "done"

## When to ignore
If the state of the job does not matter.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG511"
SEVERITY = "warning"
SUMMARY = "a later command hides the exit status of a launch"

_CANNOT_FAIL = (
    "echo",
    "printf",
    "date",
    "deactivate",
    "true",
    ":",
    "sleep",
    "wait",
    "times",
    "hostname",
    "conda",
    "module",
)
_READ = re.compile(r"\$\{?\?|PIPESTATUS|\btrap\b|\bexit\b|\bERR\b")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the commands after the last launch."""
    if not script.launches:
        return
    launch = script.launches[-1]
    command = launch.command
    after = [c for c in script.commands if _is_after(script, command, c)]
    is_plain = set(command.place) <= {"redirected"} and "errexit" not in command.settings
    quiet = all(c.name in _CANNOT_FAIL and set(c.place) <= {"redirected", "output"} for c in after)
    if after and is_plain and quiet and not _READ.search(script.source.plain, script.header.end):
        yield Finding(
            after[-1].span,
            f"`{after[-1].name}` hides a failure of the launch on line "
            f"{script.source.position(command.span.start).line}: Slurm reports COMPLETED",
            "write `set -e` at the top of the script",
        )


def _is_after(script: Script, launch: Command, other: Command) -> bool:
    """Whether a command starts when a launch has ended: not in its arguments or its redirections."""
    between = script.source.plain[launch.span.end : other.span.start]
    return bool(re.search(r"[\n;&|]", between.replace("\\\n", "")))
