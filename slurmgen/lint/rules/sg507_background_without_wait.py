"""The script ends while its launches are still running.

## What it checks
Checks for launches in the background (`&`) that are followed by neither `wait` nor another command that keeps
the script running, such as a launch in the foreground.

## Why it matters
A job ends with its batch script, and Slurm kills all processes that are still running. Training is killed
right after its start.

## Example
    srun python train.py &

## Use instead
    srun python train.py &
    wait

## When to ignore
If the job is meant to end with its script.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG507"
SEVERITY = "error"
SUMMARY = "the script ends before its background launches"

_WAITS = ("wait", "sleep", "tail", "srun", "fg", "while")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check whether a command after the last launch in the background waits."""
    background = [launch for launch in script.launches if "background" in launch.command.place]
    if not background or "function" in background[-1].command.place:
        return
    last = background[-1]
    after = [command for command in script.commands if command.span.start > last.command.span.start]
    fronts = [command for command in after if "background" not in command.place]
    waits = any(command.name in _WAITS or not command.name for command in fronts)
    starts = {command.span for command in fronts}
    if not waits and not any(launch.command.span in starts for launch in script.launches):
        end = len(script.source.text)
        newline = "" if script.source.text.endswith("\n") else "\n"
        yield Finding(
            last.span,
            "the script does not wait for this command, so Slurm kills it when the script ends",
            "add `wait` at the end of the script",
            (Edit(Span(end, end), f"{newline}wait\n"),),
        )
