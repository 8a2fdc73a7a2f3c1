"""An array is copied by its name alone, which is its first element.

## What it checks
Checks for `name=($array)` in a script that sets `array` to an array, and uses more than the first element of
the copy.

## Why it matters
Without an index, `$array` is the first element. The copy of a list of nodes then has a single node, whatever
the size of the job, and `${copy[1]}` is empty.

## Example
    nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
    nodes_array=($nodes)
    echo "${nodes_array[1]}"

## Use instead
    nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))

## When to ignore
If only the first element is meant.

## Reference
https://www.shellcheck.net/wiki/SC2128
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG508"
SEVERITY = "warning"
SUMMARY = "the name of an array without an index is its first element"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check arrays whose only element is an array variable without an index."""
    # More than the first element: another one, all of them, or their number.
    indexed = set(re.findall(r"\$\{#?!?(\w+)\[(?!0\])", script.source.plain))
    for copy in script.shell.array_copies:
        if copy.target not in indexed:
            continue
        yield Finding(
            copy.span,
            f"${copy.name} is an array; without an index it is only the first element",
            f'write `("${{{copy.name}[@]}}")`',
            (Edit(copy.span, f'("${{{copy.name}[@]}}")'),),
        )
