"""An option of sbatch is written with one dash, or a short one with `=`.

## What it checks
Checks the header for long options with a single dash, such as `-nodes=2`, and for short options with an
equals sign, such as `-N=2`.

## Why it matters
sbatch takes the first letter as a short option and the rest of the word as its value: `-constraint=gpu`
requests "onstraint=gpu" CPUs per task, and `-o=train.log` writes to the file "=train.log".

## Example
    #SBATCH -nodes=2
    #SBATCH -t=01:00:00

## Use instead
    #SBATCH --nodes=2
    #SBATCH -t 01:00:00

## When to ignore
Never: sbatch reads another option or another value.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.header import Directive
from slurmgen.slurm.getopt import SBATCH

CODE = "SG117"
SEVERITY = "error"
SUMMARY = "a long option has one dash, or a short one has an equals sign"

_REFUSED = frozenset("c m n N t".split())
"Letters whose values have a form that no name of an option has, so that sbatch rejects the script."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check each short option together with its value."""
    for directive in script.header.directives:
        word = directive.option.written + directive.value
        if is_misread(directive) and script.source.quote(directive.span) == word:
            name = word[1:].partition("=")[0]
            right = f"-{word}" if len(name) > 1 else f"-{name} {directive.value[1:]}"
            end = directive.span.start + (1 if len(name) > 1 else len("-N="))
            edit = Edit(Span(directive.span.start, end), "--" if len(name) > 1 else f"-{name} ")
            yield Finding(
                directive.span,
                f"sbatch reads {word} as {directive.option.written} with the value {directive.value!r}",
                f"write `{right}`",
                (edit,),
                safe=word[1] in _REFUSED,
            )


def is_misread(directive: Directive) -> bool:
    """Whether a short option and its value were meant as something else."""
    written, value = directive.option.written, directive.value
    if written.startswith("--"):
        return False
    name = (written[1:] + value).partition("=")[0]
    return value.startswith("=") or (len(name) > 2 and name in SBATCH.names)
