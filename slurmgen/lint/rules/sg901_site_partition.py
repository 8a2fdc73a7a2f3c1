"""The site has no such partition, or it has no GPUs.

## What it finds
With a site: a `--partition` that its profile does not list, and a GPU job in a partition without GPUs.

## Why it is bad
sbatch refuses the job, or it waits for ever.

## Example
    #SBATCH --partition=gpu          # on Olivia

## Use instead
    #SBATCH --partition=accel

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.errors import did_you_mean
from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.sites.nodes import gpu_partitions, partitions_of

CODE = "SG901"
SEVERITY = "error"
SUMMARY = "the site has no such partition for this job"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the partition with the profile."""
    directive = script.header.last("partition")
    if (
        site is None
        or directive is None
        or not site.partitions
        or "$" in directive.value
        or not directive.value
    ):
        return
    useful = gpu_partitions(site) if script.job.has_gpus else site.partitions
    for name in partitions_of(site, directive.value):
        if name not in site.partitions:
            yield Finding(
                directive.value_span,
                f"{site.name} has no partition {name!r}",
                did_you_mean(name, useful),
            )
            return  # one finding at a place
        elif site.partitions[name].max_gpus == 0 and script.job.has_gpus:
            yield Finding(
                directive.value_span,
                f"partition {name} of {site.name} has no GPUs",
                f"use {' or '.join(useful)}" if useful else "",
            )
