"""Every job uses the same rendezvous ID.

## What it checks
Checks for torchrun on several nodes with a dynamic rendezvous, such as c10d or etcd, and an `--rdzv-id` that
is missing or constant, and for a constant one with a fixed port on one node.

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
    insert,
    port_in,
    rank_launchers,
    rendezvous,
    replace_value,
    several_nodes,
)

CODE = "SG305"
SEVERITY = "warning"
SUMMARY = "every job uses the same rendezvous ID"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check launches with a dynamic rendezvous on several nodes."""
    for launch in rank_launchers(script):
        options = launch.options
        given = options.given.get("rdzv-id")
        dynamic = launch.kind == "torchrun" and options.text("rdzv-backend") not in (None, "static")
        fixed = (
            options.lacks("rdzv-id")
            if given is None
            else options.text("rdzv-id") is not None and not given.word.names
        )
        may_meet = several_nodes(script, launch) or (given and _has_fixed_port(launch))
        if not (dynamic and fixed and may_meet) or "$" in (given.value if given else ""):
            continue
        if given:
            edits = replace_value(script, given, '"$SLURM_JOB_ID"')
        else:
            edits = insert(script, launch.word, launch.options_at, ' --rdzv-id="$SLURM_JOB_ID"')
        fact = f"the rendezvous ID is {given.value!r} in every job" if given else "there is no rendezvous ID"
        yield Finding(launch.span, fact, 'write `--rdzv-id="$SLURM_JOB_ID"`', edits)


def _has_fixed_port(launch: Launch) -> bool:
    """Whether another job on the node can find the same rendezvous."""
    return any(port_in(found.value) for found in rendezvous(launch, "port"))
