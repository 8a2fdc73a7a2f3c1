"""The GPU type does not exist on the site, or is missing.

## What it checks
With `--site`: checks for a GPU type that the site does not have, if its profile says that its list of types
is complete, and for a missing GPU type if the site requires one.

## Why it matters
sbatch rejects the job: "Requested node configuration is not available".

## Example
    #SBATCH --gres=gpu:h100:2        # on DAIC

## Use instead
    #SBATCH --gres=gpu:a40:2

## When to ignore
If the profile of the site is out of date.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.errors import did_you_mean
from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.place import gpu_type

CODE = "SG905"
SEVERITY = "error"
SUMMARY = "the GPU type does not exist on the site, or is missing"

_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Compare the GPU type in the header with the site's profile."""
    directive = next((found for name in _OPTIONS if (found := script.header.last(name))), None)
    if site is None or directive is None or not script.job.gpus_per_node:
        return
    kind, types = gpu_type(script, site), site.gpu.types
    if kind and types and kind not in types and "gpu.types" in site.complete:
        yield Finding(
            directive.value_span, f"{site.name} has no GPU type {kind!r}", did_you_mean(kind, types)
        )
    elif kind is None and site.gpu.type_required:
        yield Finding(
            directive.value_span, f"{site.name} requires a GPU type", f"add a type: {', '.join(types)}"
        )
