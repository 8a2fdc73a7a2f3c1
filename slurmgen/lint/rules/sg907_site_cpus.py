"""The site cannot allocate this number of CPUs.

## What it checks
With `--site`: checks for CPUs per task that are not a multiple of the unit in which the site allocates CPUs,
and for more CPUs per node than a node has.

## Why it matters
The job is allocated more CPUs than its tasks use, or is rejected.

## Example
    #SBATCH --cpus-per-task=5        # on DAIC, which allocates CPUs in pairs

## Use instead
    #SBATCH --cpus-per-task=6

## When to ignore
If the profile of the site is out of date.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place

CODE = "SG907"
SEVERITY = "error"
SUMMARY = "the site cannot allocate this number of CPUs"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the CPUs in the header with the site's profile."""
    directive, cpus = script.header.last("cpus-per-task"), script.job.cpus_per_task
    if site is None or directive is None or not cpus:
        return
    multiple, most = site.cpu.multiple_of, place(script, site).node.cpus
    on_node = cpus * (script.job.ntasks_per_node or 1)
    if cpus % multiple:
        yield Finding(
            directive.span,
            f"{site.name} allocates CPUs in multiples of {multiple}, not {cpus}",
            f"request `--cpus-per-task={cpus // multiple * multiple + multiple}`",
        )
    elif most and on_node > most:
        yield Finding(
            directive.span,
            f"the job requests {on_node} CPUs per node, but a node of {site.name} has {most}",
            f"request at most `--cpus-per-task={most // (script.job.ntasks_per_node or 1)}`",
        )
