"""More than one of --mem, --mem-per-cpu and --mem-per-gpu.

## What it finds
Two or three of these options in one header.

## Why it is bad
They exclude each other; sbatch refuses the script.

## Example
    #SBATCH --mem=64G
    #SBATCH --mem-per-cpu=4G

## Use instead
    #SBATCH --mem=64G

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG109"
SEVERITY = "error"
SUMMARY = "memory options exclude each other"

FORMS = ("mem", "mem-per-cpu", "mem-per-gpu")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Count the forms, in each part of a heterogeneous job."""
    for component in range(script.header.components):
        said = [d for d in script.header.directives if d.component == component and d.name in FORMS]
        if len({directive.name for directive in said}) > 1:
            others = " and ".join(f"--{name}" for name in FORMS if name in {d.name for d in said})
            yield Finding(
                said[-1].span, f"{others} exclude each other; sbatch refuses the script", "keep one of them"
            )
