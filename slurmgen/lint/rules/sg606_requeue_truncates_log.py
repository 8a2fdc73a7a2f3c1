"""A job that requeues itself overwrites its own log.

## What it finds
`scontrol requeue` in a script without `--open-mode=append`.

## Why it is bad
The requeued job keeps its id, so it opens the same log again and, on most clusters, empties it: what happened
before is gone.

## Example
    #SBATCH --output=%x-%j.out
    scontrol requeue "$SLURM_JOB_ID"

## Use instead
    #SBATCH --output=%x-%j.out
    #SBATCH --open-mode=append
    scontrol requeue "$SLURM_JOB_ID"

## Reference
https://slurm.schedmd.com/sbatch.html (--open-mode)
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.rules.signals import requeues

CODE = "SG606"
SEVERITY = "warning"
SUMMARY = "a requeued job empties its log"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for a requeue without appending."""
    header = script.header
    appends = (header.value("open-mode") or "").startswith("a")
    for command in requeues(script)[:1]:
        if not appends and header.directives:
            at = script.source.line_span(header.directives[-1].span.end).end
            yield Finding(
                command.span,
                "when the job starts again it empties its log",
                "add `#SBATCH --open-mode=append`",
                (Edit(Span(at, at), "#SBATCH --open-mode=append\n"),),
            )
