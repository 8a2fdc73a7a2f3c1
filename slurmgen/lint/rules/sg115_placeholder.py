"""A directive contains a placeholder that was not filled in.

## What it checks
Checks the account, partition, QOS, reservation and constraint for values such as `<your-account>`,
`YOUR_PARTITION` or `CHANGEME`.

## Why it matters
sbatch rejects a partition that does not exist, and on most clusters also such an account.

## Example
    #SBATCH --account=<your-account>

## Use instead
    #SBATCH --account=nn1234k

## When to ignore
In an example or a template that is filled in before it is submitted.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG115"
SEVERITY = "error"
SUMMARY = "a directive contains an unfilled placeholder"

_NAMES = ("account", "partition", "qos", "reservation", "constraint")
_THINGS = r"(account|project|partition|queue|qos|group|allocation|name|reservation)"
_PLACEHOLDER = re.compile(
    r"<[^>]*>|\[[A-Za-z _-]+\]|x{1,2}|(\w*[-_])?x{3,}\w*|xyz(@\w+)?|todo|fixme|placeholder|example|foo|bar"
    r"|.*\b(change|replace|fill)[-_ ]?(me|this|in)\b.*"
    rf"|(.*[-_ ])?your?[-_ ]?(\w*[-_ ])?{_THINGS}\w*"
    r"|(account|project|partition|queue|qos)([-_]?(name|here|id|number|code|billing[-_]group))?"
    r"|(def|rrg|aip)-(some\w+|supervisor|sponsor|user(name)?|pi|prof)",
    re.IGNORECASE,
)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the values with usual placeholders."""
    for directive in script.header.directives:
        if directive.name in _NAMES and _PLACEHOLDER.fullmatch(directive.value.strip("'\"")):
            yield Finding(
                directive.value_span,
                f"{directive.value!r} looks like a placeholder",
                f"write the {directive.name} of your project",
            )
