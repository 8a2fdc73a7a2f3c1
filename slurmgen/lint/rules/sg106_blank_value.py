"""A directive has no value.

## What it checks
Checks for `--option=` with nothing after the equals sign, and for an option that requires a value but is the
last word of the header or is followed by another option. Options that sbatch accepts without a value, such as
`--mail-user=`, are not reported, nor templates of JUBE, such as `--nodes=#NODES#`.

## Why it matters
sbatch rejects an empty partition, time, memory or number of nodes. Without the `=`, sbatch takes the next
word of the header as the value, even from the next line.

## Example
    #SBATCH --partition=

## Use instead
    #SBATCH --partition=gpu

## When to ignore
If a template fills in the value before the script is submitted.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.reader.header import Directive
from slurmgen.slurm.getopt import SBATCH

CODE = "SG106"
SEVERITY = "error"
SUMMARY = "a directive has no value"

_HARMLESS = frozenset(
    """
    account chdir comment constraint dependency exclude job-name mail-user nodelist output qos reservation
    """.split()
)
"Slurm 22.05 runs a job with an empty value of these as one without the option."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every option that requires a value."""
    for directive in script.header.directives:
        option = directive.option
        swallowed = option.at != option.value_at and directive.value.startswith("--")
        is_empty = option.value == "" and directive.name in SBATCH.names - _HARMLESS
        if option.lacks_value or swallowed or (is_empty and not _is_template(script, directive)):
            yield Finding(
                directive.span,
                f"{option.written} has no value",
                f"write `--{directive.name}=VALUE`, or delete the line",
            )


def _is_template(script: Script, directive: Directive) -> bool:
    return bool(re.match(r"#\w+#", script.source.plain[directive.span.end :]))
