"""A job that requeues itself overwrites its log.

## What it checks
Checks for `scontrol requeue` or `--requeue` in a script without `--open-mode=append`.

## Why it matters
A requeued job keeps its ID and opens the same log file. By default Slurm truncates the file, and the output
of the earlier run is lost.

## Example
    #SBATCH --output=%x-%j.out
    scontrol requeue "$SLURM_JOB_ID"

## Use instead
    #SBATCH --output=%x-%j.out
    #SBATCH --open-mode=append
    scontrol requeue "$SLURM_JOB_ID"

## When to ignore
If the training writes a log of its own, or the cluster sets JobFileAppend.

## Reference
https://slurm.schedmd.com/sbatch.html (--open-mode)
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.rules.signals import requeues

CODE = "SG606"
SEVERITY = "warning"
SUMMARY = "a requeued job overwrites its log"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the open mode of a script that requeues its job."""
    header = script.header
    appends = (header.value("open-mode") or "").startswith("a")
    directive = header.last("requeue")
    spans = [command.span for command in requeues(script)] + ([directive.span] if directive else [])
    for span in spans[:1]:
        if not appends and header.directives:
            at = script.source.line_span(header.directives[-1].span.end).end
            yield Finding(
                span,
                "the requeued job overwrites its log",
                "add `#SBATCH --open-mode=append`",
                (Edit(Span(at, at), "#SBATCH --open-mode=append\n"),),
            )
