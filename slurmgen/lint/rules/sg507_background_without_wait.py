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
from slurmgen.lint.reader import Launch, Script, Span

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
        yield Finding(
            last.span,
            "the script does not wait for this command, so Slurm kills it when the script ends",
            "wait for each process at the end of the script: `wait $PID`",
            _edits(script, last),
        )


def _edits(script: Script, launch: Launch) -> tuple[Edit, ...]:
    """Wait for the process, if it is the only one: `wait $!` returns its status."""
    in_background = [command for command in script.commands if "background" in command.place]
    if in_background != [launch.command] or launch.command.place != ("background",):
        return ()
    end = len(script.source.text)
    newline = "" if script.source.text.endswith("\n") else "\n"
    return (Edit(Span(end, end), f"{newline}wait $!\n"),)
