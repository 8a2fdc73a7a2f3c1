"""The header combines `--mem`, `--mem-per-cpu` and `--mem-per-gpu`.

## What it checks
Checks for two or three of these options in one header. The parts of a heterogeneous job are checked
separately.

## Why it matters
The options are mutually exclusive; sbatch rejects the script.

## Example
    #SBATCH --mem=64G
    #SBATCH --mem-per-cpu=4G

## Use instead
    #SBATCH --mem=64G

## When to ignore
Never: sbatch rejects the script.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG109"
SEVERITY = "error"
SUMMARY = "the memory options are mutually exclusive"

FORMS = ("mem", "mem-per-cpu", "mem-per-gpu")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Count the memory options in each part of a heterogeneous job."""
    for component in range(script.header.components):
        given = [d for d in script.header.directives if d.component == component and d.name in FORMS]
        if len({directive.name for directive in given}) > 1:
            names = " and ".join(f"--{name}" for name in FORMS if name in {d.name for d in given})
            yield Finding(
                given[-1].span,
                f"{names} are mutually exclusive; sbatch rejects the script",
                "keep one of them",
            )
