"""The script is too large to be checked in full.

## What it finds
A script with about 20,000 commands or more, with commands nested or chained more than 50 deep, or with
strings, arrays and functions that expand to as much. Of such a script only the #SBATCH lines are checked. Of
a rule with more than 1,000 findings the first 1,000 are reported.

## Why it is bad
The other rules are silent about what was not read, and that does not mean that it has no fault.

## Example
    f1() { f2; f2; f2; f2; f2; f2; f2; f2; f2; f2; }
    f2() { f3; f3; f3; f3; f3; f3; f3; f3; f3; f3; }
    f3() { f4; f4; f4; f4; f4; f4; f4; f4; f4; f4; }
    f4() { f5; f5; f5; f5; f5; f5; f5; f5; f5; f5; }
    f5() { date; date; date; date; date; date; date; date; date; date; }
    f1

## Use instead
    for i in $(seq 100000); do date; done

## Reference
https://github.com/tree-sitter/tree-sitter/issues/4019
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG801"
SEVERITY = "error"
SUMMARY = "the script is too large to be checked in full"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at whether the reader, or a rule before this one, stopped early."""
    if script.budget.exhausted:
        yield Finding(
            Span(0, len(script.first_line)),
            "the script is too large, or too deeply nested, to be checked in full",
            "move what is generated into a file of its own, or check the script yourself and ignore SG801",
        )
