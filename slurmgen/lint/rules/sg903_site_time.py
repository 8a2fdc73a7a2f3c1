"""The time limit exceeds the maximum of the site.

## What it checks
With `--site`: compares `--time` with the limits of the partition and of the QOS.

## Why it matters
sbatch rejects the job, or the job stays pending forever with the reason PartitionTimeLimit.

## Example
    #SBATCH --qos=devel
    #SBATCH --time=12:00:00          # on Olivia, where devel has a limit of two hours

## Use instead
    #SBATCH --qos=devel
    #SBATCH --time=02:00:00

## When to ignore
If a reservation or a QOS extends the limit.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place
from slurmgen.slurm import units

CODE = "SG903"
SEVERITY = "error"
SUMMARY = "the time limit exceeds the maximum of the site"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the time with every limit that applies."""
    directive = script.header.last("time")
    if site is None or directive is None:
        return
    try:
        requested = units.seconds(directive.value)
    except ValueError:
        return
    for name, limit in place(script, site).limits.items():
        longest = limit.time_for(script.job.nodes or 1)
        if (most := units.time_limit(longest)) is not None and requested > most:
            yield Finding(
                directive.value_span,
                f"--time={directive.value} exceeds the limit of {name} on {site.name}: {longest}",
                f"request at most `--time={longest}`",
            )
