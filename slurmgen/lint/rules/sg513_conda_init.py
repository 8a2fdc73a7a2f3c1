"""`conda init` runs in a job.

## What it checks
Checks for `conda init` and `mamba init`.

## Why it matters
The command changes ~/.bashrc, which the batch shell does not read again, so `conda activate` fails in this
shell. Several jobs that write the file at the same time can damage it.

## Example
    conda init bash
    conda activate torch

## Use instead
    eval "$(conda shell.bash hook)"
    conda activate torch

## When to ignore
Never in a job.

## Reference
https://docs.conda.io/projects/conda/en/stable/commands/init.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG513"
SEVERITY = "warning"
SUMMARY = "conda init has no effect in a job"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for the command."""
    for command in script.commands:
        if command.name in ("conda", "mamba", "micromamba") and command.texts[1:2] == ["init"]:
            yield Finding(
                command.span,
                f"`{command.name} init` changes ~/.bashrc, and has no effect in this shell",
                'write `eval "$(conda shell.bash hook)"`',
            )
