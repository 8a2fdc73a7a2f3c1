"""A directive has no value.

## What it finds
`--option=` with nothing behind it, and an option that needs a value at the end of the header or in front of
another option.

## Why it is bad
Slurm takes an empty partition or account as one that does not exist; without the `=` sbatch takes the next
word of the header, even one of the next line, as the value.

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
    """Look at every option that needs a value."""
    for directive in script.header.directives:
        option = directive.option
        swallowed = option.at != option.value_at and directive.value.startswith("--")
        if option.lacks_value or swallowed or (option.value == "" and directive.name in SBATCH.names):
            yield Finding(
                directive.span,
                f"{option.written} has no value",
                "write one, or take the line out",
                _without(script, directive) if option.value == "" else (),
            )


def _without(script: Script, directive: Directive) -> tuple[Edit, ...]:
    """The line taken out, if nothing else stands on it."""
    line = script.source.line_span(directive.span.start)
    alone = script.source.quote(line).strip() == f"#SBATCH {script.source.quote(directive.span)}"
    return (Edit(line, ""),) if alone else ()
