"""The batch shell gets a signal that it does not handle in time.

## What it finds
`--signal=B:...` with no `trap` for that signal; or with one, while every launch runs in the foreground.

## Why it is bad
Without a trap the signal ends the batch shell, and the job with it. With one, bash runs it only when the
program in the foreground has ended: after the time limit.

## Example
    #SBATCH --signal=B:USR2@120
    trap 'touch stop' USR2
    srun python train.py

## Use instead
    #SBATCH --signal=B:USR2@120
    trap 'touch stop' USR2
    srun python train.py &
    wait $! || wait $!

## Reference
https://www.gnu.org/software/bash/manual/html_node/Signals.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.signals import requested_signal, traps

CODE = "SG602"
SEVERITY = "error"
SUMMARY = "the batch shell does not handle the signal in time"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for a trap, and for a launch that lets it run."""
    asked = requested_signal(script)
    if asked is None or not asked.to_batch_shell or not script.launches or script.shell.sourced:
        return
    if any(layer.word.text == "exec" for launch in script.launches for layer in launch.layers[:1]):
        return
    found = traps(script.commands, asked.name)
    if not found:
        fact, advice = (
            "ends the batch shell, as nothing traps it",
            f"add `trap '...' {asked.name}`, or take out the B:",
        )
    elif not any("background" in launch.command.place for launch in script.launches):
        fact, advice = (
            "waits until the launch ends, which runs in the foreground",
            "start it with `&`, then `wait`",
        )
    else:
        return
    yield Finding(asked.directive.value_span, f"{asked.name} {fact}", advice)
