"""An array is copied by its name, which is only its first element.

## What it finds
`name=($array)` where the script has made `array` an array.

## Why it is bad
Without an index `$array` is its first element: the copy of a list of nodes has one node in it, whatever the
job's size, and `${copy[1]}` is empty.

## Example
    nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
    nodes_array=($nodes)

## Use instead
    nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))

## Reference
https://www.shellcheck.net/wiki/SC2128
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG508"
SEVERITY = "warning"
SUMMARY = "an array's name alone is its first element"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at arrays made of one variable that is an array itself."""
    for copy in script.shell.array_copies:
        yield Finding(
            copy.span,
            f"${copy.name} is an array; without an index this is its first element only",
            f'write `("${{{copy.name}[@]}}")`',
            (Edit(copy.span, f'("${{{copy.name}[@]}}")'),),
        )
