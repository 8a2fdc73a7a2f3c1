"""CPUs are asked for in a number that the site does not give.

## What it finds
With a site: CPUs a task that are no multiple of what the site gives out, and more CPUs on a node than it has.

## Why it is bad
The job gets more CPUs than its tasks use, or is refused.

## Example
    #SBATCH --cpus-per-task=5        # on DAIC, which gives out pairs

## Use instead
    #SBATCH --cpus-per-task=6

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place

CODE = "SG907"
SEVERITY = "error"
SUMMARY = "the site does not give that many CPUs"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the CPUs of the header with the profile."""
    directive, cpus = script.header.last("cpus-per-task"), script.job.cpus_per_task
    if site is None or directive is None or not cpus:
        return
    multiple, most = site.cpu.multiple_of, place(script, site).node.cpus
    on_node = cpus * (script.job.ntasks_per_node or 1)
    if cpus % multiple:
        yield Finding(
            directive.span,
            f"{site.name} gives out CPUs by {multiple}; {cpus} is no multiple",
            f"ask for {cpus // multiple * multiple + multiple}",
        )
    elif most and on_node > most:
        yield Finding(
            directive.span,
            f"{on_node} CPUs on a node are asked for, but a node of {site.name} has {most}",
            f"ask for at most {most // (script.job.ntasks_per_node or 1)} a task",
        )
