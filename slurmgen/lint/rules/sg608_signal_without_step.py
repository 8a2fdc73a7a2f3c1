"""The job requests a signal, but has no step that could receive it.

## What it checks
Checks for `--signal` without `B:` in a script whose launches all run without srun.

## Why it matters
Slurm sends the signal to the job steps, and not to the batch shell or its children. Without a step it reaches
no process, and the job ends at the time limit without saving.

## Example
    #SBATCH --signal=USR2@120
    torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --signal=B:USR2@120
    trap 'kill -USR2 "$pid"' USR2
    torchrun --standalone --nproc-per-node=4 train.py &
    pid=$!
    wait "$pid" || wait "$pid"

## When to ignore
If a program that the script starts runs srun itself.

## Reference
https://slurm.schedmd.com/sbatch.html (--signal)
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import runs_a_shell_script, words_of
from slurmgen.lint.rules.signals import requested_signal

CODE = "SG608"
SEVERITY = "error"
SUMMARY = "the signal reaches no process"

_STEPS = ("srun", "mpirun", "mpiexec")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for a step."""
    request = requested_signal(script)
    if request is None or request.to_batch_shell or not script.launches or script.shell.sourced:
        return
    words = words_of(script)
    if runs_a_shell_script(words):
        return
    if words.isdisjoint(_STEPS) and all(launch.step is None for launch in script.launches):
        yield Finding(
            request.directive.value_span,
            "Slurm sends the signal to job steps, and the script starts none with srun",
            "write `--signal=B:...` with a trap, or start the launch with srun",
        )
