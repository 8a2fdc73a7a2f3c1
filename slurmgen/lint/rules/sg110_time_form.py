"""A time limit is invalid, or is in minutes where hours were probably intended.

## What it checks
Checks `--time` and `--time-min` for values that are not in one of Slurm's time formats, and for `24:00`,
`48:00`, `72:00`, `96:00`, `120:00`, `144:00` and `168:00`. As hours these would be whole days, but they are
minutes and seconds. `24`, `48`, `72`, `96` and `168` alone are minutes too.

## Why it matters
sbatch rejects `24h`. Slurm ends a job with `--time=24:00` after 24 minutes.

## Example
    #SBATCH --time=24:00

## Use instead
    #SBATCH --time=24:00:00

## When to ignore
If the job really takes that number of minutes, such as 24. `00:24:00` shows this to the reader.

## Reference
https://slurm.schedmd.com/sbatch.html ; rinikerlab/reeds pull request 79
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.slurm import units

CODE = "SG110"
SEVERITY = "error"
SUMMARY = "a time limit is invalid, or in minutes instead of hours"

_WORDS = ("UNLIMITED", "INFINITE", "-1")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check --time and --time-min."""
    for directive in script.header.directives:
        value = directive.value
        if directive.name not in ("time", "time-min") or not value or "$" in value:
            continue
        if hours := units.hours_as_minutes(value):
            end, minutes = directive.value_span.end, units.canonical_time(units.seconds(value))
            yield Finding(
                directive.value_span,
                f"{value} is {hours} minutes, not hours",
                f"write `{hours}:00:00` for hours, or `{minutes}` for minutes",
                (Edit(Span(end, end), f"{hours}:00:00"[len(value) :]),),
            )
        elif value.upper() not in _WORDS and not _is_time(value):
            yield Finding(
                directive.value_span,
                f"{value!r} is not a valid Slurm time; sbatch rejects it",
                "write HH:MM:SS or D-HH:MM:SS",
            )


def _is_time(text: str) -> bool:
    try:
        units.seconds(text)
    except ValueError:
        return False
    return True
