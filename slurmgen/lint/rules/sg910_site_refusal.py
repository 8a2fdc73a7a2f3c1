"""The site refuses the job.

## What it checks
With `--site`: checks for sbatch options that the site refuses, and for combinations of nodes, GPUs,
partition, QOS and GPU type that it refuses, as its profile states them.

## Why it matters
sbatch rejects the job, or the site stops it.

## Example
    #SBATCH --gres=gpu:1             # on Vista, whose partitions bring the GPUs

## Use instead
    #SBATCH --nodes=1

## When to ignore
Where the site no longer refuses this. Correct its profile then.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import settings, span_of

CODE = "SG910"
SEVERITY = "error"
SUMMARY = "the site refuses the job"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Report each refused option, and each refused combination at the directive of its size."""
    if site is None:
        return
    for option, reason in site.refused_options.items():
        if directive := script.header.last(option):
            yield Finding(directive.span, f"--{option} on {site.name}: {reason}", "leave the option out")
    if not script.job.gpus_per_node or _has_unknown_partition(script, site):
        return
    found = settings(script, site)
    where = span_of(script, "nodes", "partition", "gpus-per-node", "gres", "gpus", "gpus-per-task")
    for name, reason in found.refusals.items():
        advice = found.notes.get(name, "change the GPUs, nodes or partition of the job").rstrip(".")
        yield Finding(where, f"{site.name} refuses such a job: {reason}", advice)


def _has_unknown_partition(script: Script, site: Site) -> bool:
    """Whether the partition is not one of the site, which SG901 reports: its nodes are unknown."""
    named = script.header.value("partition")
    return bool(named and site.partitions and not site.partitions.keys() >= {*named.split(",")})
