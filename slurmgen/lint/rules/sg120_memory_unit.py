"""A job with GPUs requests a few megabytes of memory, probably because a unit is missing.

## What it checks
Checks `--mem`, `--mem-per-gpu` and `--mem-per-cpu` of a job with GPUs for less than 100 MB. `--mem=0` is
allowed: it requests all memory of the node.

## Why it matters
Slurm reads a number without a unit as megabytes. With `--mem=64` the kernel kills the job when Python starts.

## Example
    #SBATCH --gres=gpu:2
    #SBATCH --mem=64

## Use instead
    #SBATCH --gres=gpu:2
    #SBATCH --mem=64G

## When to ignore
Never: no program with GPUs runs in so little memory.

## Reference
https://slurm.schedmd.com/sbatch.html#OPT_mem
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.rules.sg109_memory_options import FORMS
from slurmgen.slurm import units

CODE = "SG120"
SEVERITY = "error"
SUMMARY = "a job with GPUs requests a few megabytes of memory"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the size of each memory option."""
    for directive in script.header.directives if script.job.has_gpus else ():
        if directive.name in FORMS and 0 < _megabytes(directive.value) < units.LEAST_MEMORY:
            value, end = directive.value, directive.value_span.end
            size = units.canonical_size(_megabytes(value))
            yield Finding(
                directive.value_span,
                f"--{directive.name}={value} is {size}, too little for a job with GPUs",
                f"write `--{directive.name}={value}G` for gigabytes"
                if value.isdecimal()
                else "request more memory",
                (Edit(Span(end, end), "G"),) if value.isdecimal() else (),
            )


def _megabytes(text: str) -> int:
    try:
        return units.megabytes(text)
    except ValueError:
        return 0
