"""sbatch refuses the value of an option.

## What it checks
Checks the values of options that are numbers, sizes of memory, signals, or one of a few words, such as
`--nodes=N`, `--cpus-per-task=0`, `--mem=16GiB` or `--open-mode=add`, and options such as `--requeue=1` that
take no value. SG110 checks times.

## Why it matters
sbatch rejects the script, for example with "Invalid numeric value".

## Example
    #SBATCH --mem=16.5G
    #SBATCH --cpus-per-task=0

## Use instead
    #SBATCH --mem=16896M
    #SBATCH --cpus-per-task=8

## When to ignore
Never: sbatch rejects the script. A template that is filled in before it is submitted is not a script.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.sg117_one_dash import is_misread
from slurmgen.slurm.getopt import SBATCH

CODE = "SG118"
SEVERITY = "error"
SUMMARY = "sbatch refuses the value of this option"

_NUMBER = (r"0*[1-9]\d*", "a number from 1")
_SIZE = (r"\d+[KMGT]?B?", "a number with the unit K, M, G or T")
_NUMBERS = """
    ntasks cpus-per-task ntasks-per-node tasks-per-node ntasks-per-gpu ntasks-per-socket ntasks-per-core
    cpus-per-gpu cores-per-socket sockets-per-node threads-per-core mincpus
""".split()
_FORMS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_NUMBERS, _NUMBER),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _SIZE),
    # Newer releases take lists of node counts and steps, as in 2,4 and 2-8:2.
    "nodes": (r"\d[\dkKmM,:-]*", "a number, or a range such as 2-4"),
    "open-mode": (r"a(ppend)?|t(runcate)?", "append or truncate"),
    "signal": (r"([RB]+:)?[A-Z]*\d*(@\d{1,5})?", "a signal and seconds, such as USR1@90"),
    "gres": (r"[^=]*[^:=]|.*\(.*", "names with counts, such as gpu:2"),
}
"The pattern of values that some release takes, seen with sbatch 22.05, and what to write."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each value with the form that its option needs."""
    for directive in script.header.directives:
        value, name = directive.value, directive.name
        if not value or "$" in value or is_misread(directive):
            continue
        pattern, form = _FORMS.get(name, ("", ""))
        if pattern and not re.fullmatch(pattern, value, re.IGNORECASE):
            yield Finding(directive.value_span, f"sbatch refuses {value!r} for --{name}", f"write {form}")
        elif name in SBATCH.flags:
            yield Finding(
                directive.span, f"--{name} takes no value, and sbatch refuses {value!r}", f"write `--{name}`"
            )
