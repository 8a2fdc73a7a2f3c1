"""A directive names no option of sbatch, or could mean several.

## What it finds
Option names that are a near miss of a real one, and abbreviations that several options begin with. A name
that is like none may belong to a plug-in of the site and passes.

## Why it is bad
sbatch refuses the script when it is submitted.

## Example
    #SBATCH --cpu-per-task=8
    #SBATCH --ntask=4

## Use instead
    #SBATCH --cpus-per-task=8
    #SBATCH --ntasks=4

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.header import Directive
from slurmgen.slurm.getopt import SBATCH

CODE = "SG104"
SEVERITY = "error"
SUMMARY = "sbatch knows no such option"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at every option that does not match exactly one."""
    for directive in script.header.directives:
        option = directive.option
        if len(option.matches) > 1:
            yield Finding(
                _name(directive),
                f"{option.written} could be --{', --'.join(option.matches)}; sbatch refuses it",
                "write the whole name",
            )
        elif not option.matches and (close := _near(directive)):
            edit = Edit(_name(directive), f"--{close[0]}")
            yield Finding(
                _name(directive),
                f"sbatch has no option {option.written} and refuses the script",
                f"write `--{close[0]}`",
                (edit,) if len(close) == 1 else (),
            )


def _name(directive: Directive) -> Span:
    return Span(directive.span.start, directive.span.start + len(directive.option.written))


def _near(directive: Directive) -> list[str]:
    from difflib import get_close_matches  # only a fault needs it

    if not directive.option.written.startswith("--"):
        return []
    return get_close_matches(directive.name, SBATCH.names, n=2, cutoff=0.87)
