"""The site requires an account.

## What it checks
With `--site`: checks for a header without `--account`, if the site's profile requires one.

## Why it matters
sbatch rejects the job, or charges it to your default account.

## Example
    #SBATCH --partition=all          # on DAIC

## Use instead
    #SBATCH --partition=all
    #SBATCH --account=ewi-insy-prb

## When to ignore
If your user has a default account.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG902"
SEVERITY = "error"
SUMMARY = "the site requires an account"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Check for --account."""
    if site and site.account.required and script.header.directives and not script.header.last("account"):
        hint = f" {site.account.hint}" if site.account.hint else ""
        span = Span(0, len(script.first_line))
        yield Finding(span, f"{site.name} requires an account", f"add `#SBATCH --account=NAME`.{hint}")
