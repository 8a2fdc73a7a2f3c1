"""The time limit is longer than the site gives.

## What it finds
With a site: a `--time` over the limit of the partition or the quality of service.

## Why it is bad
The job is refused, or waits for ever with the reason PartitionTimeLimit.

## Example
    #SBATCH --qos=devel
    #SBATCH --time=12:00:00          # on Olivia, where devel ends after two hours

## Use instead
    #SBATCH --qos=devel
    #SBATCH --time=02:00:00

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import place
from slurmgen.slurm import durations

CODE = "SG903"
SEVERITY = "error"
SUMMARY = "the site ends jobs earlier"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the time with every limit that holds."""
    directive = script.header.last("time")
    if site is None or directive is None:
        return
    try:
        asked = durations.seconds(directive.value)
    except ValueError:
        return
    for name, limit in place(script, site).limits.items():
        if limit.max_seconds is not None and asked > limit.max_seconds:
            yield Finding(
                directive.value_span,
                f"{name} of {site.name} ends jobs after {limit.max_time}",
                f"ask for at most `--time={limit.max_time}`",
            )
