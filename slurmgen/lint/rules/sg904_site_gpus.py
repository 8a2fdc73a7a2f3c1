"""More GPUs or nodes than the site gives.

## What it finds
With a site: more GPUs on a node than its nodes have, and more GPUs or nodes in all than a job may have.

## Why it is bad
The job is refused, or waits for ever.

## Example
    #SBATCH --gres=gpu:8             # on a site with 4 a node

## Use instead
    #SBATCH --nodes=2
    #SBATCH --gres=gpu:4

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.rules.place import place

CODE = "SG904"
SEVERITY = "error"
SUMMARY = "the site gives fewer GPUs or nodes"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the numbers of the header with the profile."""
    if site is None:
        return
    job, have = script.job, place(script, site).node.gpus
    if job.gpus_per_node and have and job.gpus_per_node > have:
        yield Finding(
            _place(script, "gres", "gpus-per-node", "gpus", "gpus-per-task"),
            f"{job.gpus_per_node} GPUs a node are asked for, but a node of {site.name} has {have}",
            f"ask for at most {have} a node, on more nodes",
        )
    for name, limit in place(script, site).limits.items():
        counts = (("GPUs", job.gpus, limit.max_gpus), ("nodes", job.nodes, limit.max_nodes))
        for what, asked, most in counts:
            if asked and most and asked > most:
                yield Finding(
                    _place(script, "nodes", "gpus", "gres"),
                    f"{asked} {what} are more than {name} of {site.name} gives a job: {most}",
                    f"ask for at most {most}",
                )


def _place(script: Script, *names: str) -> Span:
    found = [directive for name in names if (directive := script.header.last(name))]
    return found[0].span if found else Span(0, len(script.first_line))
