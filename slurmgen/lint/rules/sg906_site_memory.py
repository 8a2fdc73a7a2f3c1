"""The site does not accept this memory option, or has less memory per node.

## What it checks
With `--site`: checks for any memory option if the site allocates memory by itself, for `--mem` if the site
requires memory per CPU or per GPU, and for more memory than a node has.

## Why it matters
sbatch rejects the job, or the job stays pending forever.

## Example
    #SBATCH --mem=2T                 # on a site whose nodes have 808G

## Use instead
    #SBATCH --mem=440G

## When to ignore
If the profile of the site is out of date.

## Reference
`slurmgen sites show NAME` ; bessagroup/f3dasm issue 352
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.reader.header import Directive
from slurmgen.lint.rules.place import place
from slurmgen.lint.rules.sg109_memory_options import FORMS
from slurmgen.slurm import units

CODE = "SG906"
SEVERITY = "error"
SUMMARY = "the site does not accept this memory request"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare each memory option with the site's profile."""
    for directive in script.header.directives if site else ():
        if site and directive.name in FORMS and (texts := _texts(script, site, directive)):
            line = script.source.line_span(directive.span.start)
            alone = script.source.quote(line).strip() == f"#SBATCH {script.source.quote(directive.span)}"
            forbidden = site.memory.form == "none" and alone
            yield Finding(directive.span, *texts, (Edit(line, ""),) if forbidden else (), safe=True)


def _texts(script: Script, site: Site, directive: Directive) -> tuple[str, str] | None:
    """The message and the advice for an option that the site does not accept."""
    form, node = site.memory.form, place(script, site).node
    most = node.memory
    if form == "none":
        return f"{site.name} allocates memory with the GPUs and accepts no memory option", "delete the option"
    if directive.name == "mem" and form not in ("mem", "optional"):
        size = (node.memory_per_gpu or site.memory.per_gpu) if form == "mem-per-gpu" else None
        return f"{site.name} requires --{form} instead of --mem", f"write `--{form}={size or 'SIZE'}`"
    if directive.name == "mem" and most and _megabytes(directive.value) > units.megabytes(most):
        return (
            f"--mem={directive.value} exceeds the memory of a node of {site.name}: {most}",
            f"request at most `--mem={most}`",
        )
    return None


def _megabytes(text: str) -> int:
    try:
        return units.megabytes(text)
    except ValueError:
        return 0
