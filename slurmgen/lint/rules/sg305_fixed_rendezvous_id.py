"""Every run meets under the same rendezvous id.

## What it finds
torchrun on several nodes with a c10d or etcd rendezvous and an `--rdzv-id` that is a constant, or none.

## Why it is bad
Two jobs, or a job and what is left of one before it, take each other's nodes for their own.

## Example
    srun torchrun --rdzv_backend=c10d --rdzv_id=101 ... train.py

## Use instead
    srun torchrun --rdzv_backend=c10d --rdzv_id="$SLURM_JOB_ID" ... train.py

## Reference
NVIDIA-NeMo/Run pull request 143 ; https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import insert, rank_launchers, replace_value, several_nodes

CODE = "SG305"
SEVERITY = "warning"
SUMMARY = "every run has the same rendezvous id"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at dynamic rendezvous of several nodes."""
    for launch in rank_launchers(script):
        options = launch.options
        given = options.given.get("rdzv-id")
        dynamic = launch.kind == "torchrun" and options.text("rdzv-backend") not in (None, "static")
        fixed = (
            options.lacks("rdzv-id")
            if given is None
            else options.text("rdzv-id") is not None and not given.word.names
        )
        if not (dynamic and fixed and several_nodes(script, launch)) or "$" in (given.value if given else ""):
            continue
        if given:
            edits = replace_value(script, given, '"$SLURM_JOB_ID"')
        else:
            edits = insert(script, launch.word, launch.options_at, ' --rdzv-id="$SLURM_JOB_ID"')
        said = f"the rendezvous id is always {given.value!r}" if given else "there is no rendezvous id"
        yield Finding(launch.span, said, 'write `--rdzv-id="$SLURM_JOB_ID"`', edits)
