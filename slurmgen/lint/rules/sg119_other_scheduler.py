"""The script is for another scheduler.

## What it checks
Checks for directives of PBS, Grid Engine, LSF, Flux and other schedulers in a script without `#SBATCH` lines.
No other rule applies to such a script.

## Why it matters
The job gets none of the resources that the directives request. sbatch translates some of those of PBS, but
not the variables of PBS that the commands use.

## Example
    #PBS -l select=2:ngpus=4

## Use instead
    #SBATCH --nodes=2
    #SBATCH --gpus-per-node=4

## When to ignore
If the script is submitted to that scheduler.

## Reference
https://slurm.schedmd.com/rosetta.pdf
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG119"
SEVERITY = "error"
SUMMARY = "the script is for another scheduler"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the first directive."""
    if script.other_scheduler:
        name, span = script.other_scheduler
        yield Finding(
            span,
            f"the script is for {name}: it has no #SBATCH line",
            f"write its directives for Slurm, or submit it to {name}",
        )
