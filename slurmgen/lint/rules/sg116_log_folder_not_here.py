"""The directory of the log does not exist here.

## What it checks
If the script is a file, checks for a log in a relative directory that exists neither in the current directory
nor next to the script.

## Why it matters
If the directory is missing where the job is submitted, the job fails immediately with exit code 0:53 and
without a log. The rule is opt-in, because the cluster may have the directory although this machine has not.

## Example
    #SBATCH --output=logs/%j.out

## Use instead
    #SBATCH --output=train-%j.out

Or create the directory before you run `sbatch`.

## When to ignore
If the directory exists on the cluster.

## Reference
https://slurm.schedmd.com/sbatch.html ; DataBiosphere/toil issue 4633
"""

from collections.abc import Iterator
from shlex import quote

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules import sg112_log_folder as certain

CODE = "SG116"
SEVERITY = "note"
SUMMARY = "the directory of the log does not exist here"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Look for each directory on disk, unless SG112 reports it."""
    if script.path is None or script.header.last("chdir"):
        return
    reported = {finding.span for finding in certain.check(script, site)}
    for directive, directory in certain.log_directories(script):
        is_relative = not directory.startswith("/") and "%" not in directory
        if is_relative and directive.value_span not in reported and not certain.exists(script, directory):
            yield Finding(
                directive.value_span,
                f"the directory {directory!r} does not exist here",
                f"run `mkdir -p {quote(directory)}` before `sbatch`",
            )
