"""sbatch cannot parse a directive.

## What it checks
Checks `#SBATCH` lines for words that belong to no option, for unclosed quotes, and for a colon after
`#SBATCH`.

## Why it matters
sbatch rejects the script: "Invalid directive found in batch script". Common causes are an unquoted value with
spaces, spaces around `=`, and a hyphen that an editor replaced with a dash.

## Example
    #SBATCH --job-name my job
    #SBATCH --time = 01:00:00

## Use instead
    #SBATCH --job-name="my job"
    #SBATCH --time=01:00:00

## When to ignore
Never: sbatch rejects the script.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG105"
SEVERITY = "error"
SUMMARY = "sbatch cannot parse this directive"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report lines that cannot be parsed, and words that belong to no option."""
    for broken in script.header.broken:
        yield Finding(
            broken.span,
            f"sbatch rejects this line: {broken.why}",
            "write `#SBATCH --option=value`, and close every quote",
        )
    for span in script.header.strays:
        if not _follows_unknown_option(script, span):
            yield Finding(
                span,
                f"sbatch rejects the script: {script.source.quote(span)!r} belongs to no option",
                "write `--option=value`, and quote a value that contains spaces",
            )


def _follows_unknown_option(script: Script, span: Span) -> bool:
    """Whether the word follows an unknown option, which may be a plug-in's and may take a value."""
    before = [d for d in script.header.directives if d.span.end <= span.start]
    return bool(before) and not before[-1].option.matches
