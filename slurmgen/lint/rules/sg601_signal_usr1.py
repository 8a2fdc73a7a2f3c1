"""The job asks for USR1, which NCCL takes.

## What it finds
`--signal=USR1@...` without `B:` in a job with GPUs that starts ranks.

## Why it is bad
NCCL installs a handler of its own for USR1, so that the training script may never see the signal and is cut
off without saving.

## Example
    #SBATCH --signal=USR1@120

## Use instead
    #SBATCH --signal=USR2@120

The training script, or Lightning's SLURMEnvironment(requeue_signal=), must wait for USR2 then.

## Reference
facebookincubator/submitit pull request 1697 ; Lightning-AI/pytorch-lightning issue 14610
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.signals import requested_signal

CODE = "SG601"
SEVERITY = "warning"
SUMMARY = "NCCL takes USR1"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the signal that goes to the ranks."""
    asked = requested_signal(script)
    if (
        asked
        and asked.name == "USR1"
        and not asked.to_batch_shell
        and script.job.has_gpus
        and script.launches
    ):
        yield Finding(
            asked.directive.value_span,
            "NCCL handles USR1 itself, so that the training script may never see it",
            "use USR2, here and in the training script",
        )
