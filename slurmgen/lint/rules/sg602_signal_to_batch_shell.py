"""The batch shell does not handle the requested signal in time.

## What it checks
Checks for `--signal=B:...` in a script that has no `trap` for the signal, or that has one but runs every
launch in the foreground.

## Why it matters
Without a trap, the signal terminates the batch shell, and the job ends. bash runs a trap only after the
command in the foreground has ended, which is too late.

## Example
    #SBATCH --signal=B:USR2@120
    trap 'touch stop' USR2
    srun python train.py

## Use instead
    #SBATCH --signal=B:USR2@120
    trap 'touch stop' USR2
    srun python train.py &
    wait $! || wait $!

The signal interrupts the first `wait`; the second one waits for the end of the step.

## When to ignore
If a program that the script calls sets the trap.

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
    """Check for a trap, and for a launch in the background."""
    request = requested_signal(script)
    if request is None or not request.to_batch_shell or not script.launches or script.shell.sourced:
        return
    if any(layer.word.text == "exec" for launch in script.launches for layer in launch.layers[:1]):
        return
    found = traps(script.commands, request.name)
    if not found:
        fact, advice = (
            "terminates the batch shell, which has no trap for it",
            f"add `trap '...' {request.name}`, or remove `B:`",
        )
    elif not any("background" in launch.command.place for launch in script.launches):
        fact, advice = (
            "is handled only after the launch has ended, because it runs in the foreground",
            "start the launch with `&`, then `wait`",
        )
    else:
        return
    yield Finding(request.directive.value_span, f"{request.name} {fact}", advice)
