"""The script ends while its launches still run.

## What it finds
Launches in the background, with `&`, and neither `wait` nor another launch after them.

## Why it is bad
A job ends with its script, and Slurm kills what still runs: the training lasts a second.

## Example
    srun python train.py &

## Use instead
    srun python train.py &
    wait

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG507"
SEVERITY = "error"
SUMMARY = "the script ends before what it started"

_WAITS = ("wait", "sleep", "tail", "srun", "fg", "while")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at whether anything waits after the last launch in the background."""
    behind = [launch for launch in script.launches if "background" in launch.command.place]
    if not behind or "function" in behind[-1].command.place:
        return
    last = behind[-1]
    after = [command for command in script.commands if command.span.start > last.command.span.start]
    fronts = [command for command in after if "background" not in command.place]
    waits = any(command.name in _WAITS or not command.name for command in fronts)
    starts = {command.span for command in fronts}
    if not waits and not any(launch.command.span in starts for launch in script.launches):
        end = len(script.source.text)
        newline = "" if script.source.text.endswith("\n") else "\n"
        yield Finding(
            last.span,
            "the script does not wait for this, and Slurm kills it when the script ends",
            "end the script with `wait`",
            (Edit(Span(end, end), f"{newline}wait\n"),),
        )
