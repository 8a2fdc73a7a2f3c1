"""sbatch cannot read a directive.

## What it finds
Words in a header that belong to no option, quotes that are never closed, and `#SBATCH:`.

## Why it is bad
sbatch refuses the script: "Invalid directive found in batch script". A blank in a value, blanks around `=`
and a dash that an editor made longer all end like this.

## Example
    #SBATCH --job-name my job
    #SBATCH --time = 01:00:00

## Use instead
    #SBATCH --job-name="my job"
    #SBATCH --time=01:00:00

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG105"
SEVERITY = "error"
SUMMARY = "sbatch cannot read this directive"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report what the reader could not place."""
    for broken in script.header.broken:
        yield Finding(broken.span, f"sbatch refuses this line: {broken.why}", "mend the line")
    for span in script.header.strays:
        if not _behind_plugin_option(script, span):
            yield Finding(
                span,
                f"sbatch refuses the script: {script.source.quote(span)!r} belongs to no option",
                "write `--option=value`, with quotes around a value that has blanks",
            )


def _behind_plugin_option(script: Script, span: Span) -> bool:
    """Nobody knows here whether an option of a site's plug-in takes one word, or two."""
    before = [d for d in script.header.directives if d.span.end <= span.start]
    return bool(before) and not before[-1].option.matches
