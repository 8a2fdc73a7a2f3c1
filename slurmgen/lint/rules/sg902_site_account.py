"""The site needs an account.

## What it finds
With a site whose profile demands an account: a header without `--account`.

## Why it is bad
sbatch refuses the job, or charges an account you did not mean.

## Example
    #SBATCH --partition=all          # on DAIC

## Use instead
    #SBATCH --partition=all
    #SBATCH --account=ewi-insy-prb

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG902"
SEVERITY = "error"
SUMMARY = "the site needs an account"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Look for --account."""
    if site and site.account.required and script.header.directives and not script.header.last("account"):
        hint = f" {site.account.hint}" if site.account.hint else ""
        span = Span(0, len(script.first_line))
        yield Finding(span, f"{site.name} needs an account", f"add `#SBATCH --account=NAME`.{hint}")
