"""The job requests the signal USR1, which NCCL handles itself.

## What it checks
Checks for `--signal=USR1@...` without `B:` in a job with GPUs that starts Python or a launcher.

## Why it matters
Some versions of NCCL handle USR1 themselves. The training script may then not receive the signal, and is
killed at the time limit without saving a checkpoint.

## Example
    #SBATCH --signal=USR1@120

## Use instead
    #SBATCH --signal=USR2@120

Change the signal in the training script as well, for example with Lightning's
SLURMEnvironment(requeue_signal=).

## When to ignore
If the script is known to receive the signal, for example because NCCL is not used.

## Reference
facebookincubator/submitit pull request 1697 ; Lightning-AI/pytorch-lightning issue 14610
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.signals import requested_signal

CODE = "SG601"
SEVERITY = "note"
SUMMARY = "NCCL handles USR1 itself"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the signal that Slurm sends to the ranks."""
    request = requested_signal(script)
    if (
        request
        and request.name == "USR1"
        and not request.to_batch_shell
        and script.job.has_gpus
        and script.launches
    ):
        yield Finding(
            request.directive.value_span,
            "NCCL handles USR1 itself, so the training script may not receive it",
            "use USR2 here and in the training script",
        )
