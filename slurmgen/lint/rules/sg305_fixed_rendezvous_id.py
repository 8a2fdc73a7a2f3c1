"""Every job uses the same rendezvous ID.

## What it checks
Checks for torchrun with a dynamic rendezvous, such as c10d or etcd, a constant `--rdzv-id` and an endpoint
with a fixed port. Jobs that have whole nodes are not reported: no other job can reach their endpoint by
accident.

## Why it matters
Two jobs, or a job and the remains of an earlier one, join each other's rendezvous.

## Example
    srun torchrun --rdzv_backend=c10d --rdzv_id=101 ... train.py

## Use instead
    srun torchrun --rdzv_backend=c10d --rdzv_id="$SLURM_JOB_ID" ... train.py

## When to ignore
If the address of the rendezvous differs from job to job.

## Reference
NVIDIA-NeMo/Run pull request 143 ; https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import (
    port_in,
    rank_launchers,
    rendezvous,
    replace_value,
    takes_whole_nodes,
)

CODE = "SG305"
SEVERITY = "warning"
SUMMARY = "every job uses the same rendezvous ID"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check launches whose endpoint another job may share."""
    if takes_whole_nodes(script):
        return
    for launch in rank_launchers(script):
        given = launch.options.given.get("rdzv-id")
        if given is None or not _is_constant(launch) or not _has_fixed_port(launch):
            continue
        yield Finding(
            launch.span,
            f"the rendezvous ID is {given.value!r} in every job",
            'write `--rdzv-id="$SLURM_JOB_ID"`',
            replace_value(script, given, '"$SLURM_JOB_ID"'),
        )


def _is_constant(launch: Launch) -> bool:
    """Whether torchrun uses the ID, and it is the same in every job."""
    given, value = launch.options.given["rdzv-id"], launch.options.text("rdzv-id")
    is_used = launch.options.text("rdzv-backend") not in (None, "static")
    return is_used and value is not None and "$" not in value and not given.word.names


def _has_fixed_port(launch: Launch) -> bool:
    """Whether another job on the node can find the same rendezvous."""
    return any(port_in(found.value) for found in rendezvous(launch, "port"))
