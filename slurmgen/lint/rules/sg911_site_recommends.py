"""A variable that the site's profile recommends is not set.

## What it checks
With `--site`: the same as SG909, for the variables that the profile sets without requiring them.

## Why it matters
Such values come from a center's tutorials or from other users. Jobs run without them, often more slowly. The
rule is opt-in, because the scripts of the centers themselves often lack them.

## Example
    srun python train.py             # on two nodes of LUMI

## Use instead
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
    srun python train.py

## When to ignore
If the environment of the user or a module sets the variables, or the job runs well without them.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.sg909_site_environment import missing_variables

CODE = "SG911"
SEVERITY = "note"
SUMMARY = "a variable that the site recommends is not set"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Report all missing variables that the profile does not require as one finding."""
    if site is not None:
        yield from missing_variables(script, site, "recommends", lambda name: name not in site.env.required)
