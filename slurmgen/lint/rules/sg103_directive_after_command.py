"""A `#SBATCH` line follows the first command.

## What it checks
Checks for `#SBATCH` lines below the first line that is neither blank nor a comment.

## Why it matters
sbatch stops reading options at the first command and ignores every later `#SBATCH` line without a warning. A
`set -euo pipefail` above the header disables all of it.

## Example
    #!/bin/bash
    module load cuda
    #SBATCH --gres=gpu:4

## Use instead
    #!/bin/bash
    #SBATCH --gres=gpu:4
    module load cuda

## When to ignore
If the lines belong to another script that this one writes or contains as text.

## Reference
https://slurm.schedmd.com/sbatch.html ; NVIDIA-NeMo/Megatron-Bridge pull request 3068
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG103"
SEVERITY = "error"
SUMMARY = "sbatch ignores a #SBATCH line after the first command"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report late `#SBATCH` lines, but not those inside a here-document."""
    comments = {span.start for span in script.shell.comments}
    first = script.source.position(script.header.end).line
    for span in script.header.late:
        if span.start in comments:
            yield Finding(
                span,
                f"sbatch ignores this line: the first command is on line {first}",
                "move the line above that command, or delete it",
            )
