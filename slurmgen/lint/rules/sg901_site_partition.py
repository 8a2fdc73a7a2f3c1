"""The site has no such partition, or the partition has no GPUs.

## What it checks
With `--site`: checks for a partition that the site does not have, if its profile says that its list of
partitions is complete, and for a GPU job in a partition without GPUs.

## Why it matters
sbatch rejects the job, or the job stays pending forever.

## Example
    #SBATCH --partition=gpu          # on Olivia

## Use instead
    #SBATCH --partition=accel

## When to ignore
If the profile of the site is out of date.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.errors import did_you_mean
from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG901"
SEVERITY = "error"
SUMMARY = "the partition does not exist, or has no GPUs"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the partition with the site's profile."""
    directive = script.header.last("partition")
    if (
        site is None
        or directive is None
        or not site.partitions
        or "$" in directive.value
        or not directive.value
    ):
        return
    from slurmgen.sites.nodes import gpu_partitions, partitions_of  # takes 20 ms; not needed without a site

    useful = gpu_partitions(site) if script.job.has_gpus else site.partitions
    for name in partitions_of(site, directive.value):
        if name not in site.partitions and "partitions" in site.complete:
            yield Finding(
                directive.value_span,
                f"{site.name} has no partition {name!r}",
                did_you_mean(name, useful),
            )
            return  # one finding at a place
        elif script.job.has_gpus and name in site.partitions and not site.partitions[name].has_gpus:
            yield Finding(
                directive.value_span,
                f"partition {name} of {site.name} has no GPUs",
                f"use {' or '.join(f'`--partition={name}`' for name in useful)}" if useful else "",
            )
