"""The job requests more GPUs or nodes than the site allows.

## What it checks
With `--site`: checks for more GPUs per node than the nodes have, and for more GPUs or nodes in total than the
partition or the QOS allows for a job.

## Why it matters
sbatch rejects the job, or the job stays pending forever.

## Example
    #SBATCH --gres=gpu:8             # on a site with 4 GPUs per node

## Use instead
    #SBATCH --nodes=2
    #SBATCH --gres=gpu:4

## When to ignore
If the profile of the site is out of date.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place, span_of

CODE = "SG904"
SEVERITY = "error"
SUMMARY = "the job requests more GPUs or nodes than the site allows"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the numbers in the header with the site's profile."""
    if site is None:
        return
    job, available = script.job, place(script, site).node.gpus
    if job.gpus_per_node and available and job.gpus_per_node > available:
        yield Finding(
            span_of(script, "gres", "gpus-per-node", "gpus", "gpus-per-task"),
            f"the job requests {job.gpus_per_node} GPUs per node, but a node of {site.name} has {available}",
            f"request at most {available} GPUs per node, on more nodes",
        )
    for name, limit in place(script, site).limits.items():
        counts = (("GPUs", job.gpus, limit.max_gpus), ("nodes", job.nodes, limit.max_nodes))
        for what, requested, most in counts:
            if requested and most and requested > most:
                yield Finding(
                    span_of(script, "nodes", "gpus", "gres"),
                    f"the job requests {requested} {what}, but {name} of {site.name} allows {most} per job",
                    f"request at most {most} {what}",
                )
