"""The script is too large to be checked completely.

## What it checks
Checks for scripts with more than about 20,000 commands, with commands nested or chained more than 50 deep, or
with strings, arrays and functions that expand to as much. Only the `#SBATCH` lines of such a script are
checked. Also reported if a rule has more than 1,000 findings, of which only the first 1,000 are reported.

## Why it matters
The other rules do not check the rest of the script, so the absence of findings does not mean that it is
correct.

## Example
    f1() { f2; f2; f2; f2; f2; f2; f2; f2; f2; f2; }
    f2() { f3; f3; f3; f3; f3; f3; f3; f3; f3; f3; }
    f3() { f4; f4; f4; f4; f4; f4; f4; f4; f4; f4; }
    f4() { f5; f5; f5; f5; f5; f5; f5; f5; f5; f5; }
    f5() { date; date; date; date; date; date; date; date; date; date; }
    f1

## Use instead
    for i in $(seq 100000); do date; done

## When to ignore
If the remainder of the script is generated and known to be correct.

## Reference
https://github.com/tree-sitter/tree-sitter/issues/4019
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG801"
SEVERITY = "error"
SUMMARY = "the script is too large to be checked completely"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check whether the reader, or an earlier rule, has stopped early."""
    if script.budget.exhausted:
        yield Finding(
            Span(0, len(script.first_line)),
            "the script is too large or too deeply nested to be checked completely",
            "move generated commands to another file, or check the script manually and add `--ignore SG801`",
        )
