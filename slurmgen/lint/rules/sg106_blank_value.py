"""A directive has no value.

## What it checks
Checks for `--option=` with nothing after the equals sign, and for an option that requires a value but is the
last word of the header or is followed by another option.

## Why it matters
Slurm treats an empty partition or account as one that does not exist. Without the `=`, sbatch takes the next
word of the header as the value, even from the next line.

## Example
    #SBATCH --partition=

## Use instead
    #SBATCH --partition=gpu

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.reader.header import Directive
from slurmgen.slurm.getopt import SBATCH

CODE = "SG106"
SEVERITY = "error"
SUMMARY = "a directive has no value"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every option that requires a value."""
    for directive in script.header.directives:
        option = directive.option
        swallowed = option.at != option.value_at and directive.value.startswith("--")
        if option.lacks_value or swallowed or (option.value == "" and directive.name in SBATCH.names):
            yield Finding(
                directive.span,
                f"{option.written} has no value",
                f"write `--{directive.name}=VALUE`, or delete the line",
                _without(script, directive) if option.value == "" else (),
            )


def _without(script: Script, directive: Directive) -> tuple[Edit, ...]:
    """Delete the line, if it contains nothing else."""
    line = script.source.line_span(directive.span.start)
    alone = script.source.quote(line).strip() == f"#SBATCH {script.source.quote(directive.span)}"
    return (Edit(line, ""),) if alone else ()
