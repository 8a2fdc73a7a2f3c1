"""The launcher is configured for a different number of nodes than it runs on.

## What it checks
Compares `--nnodes` (torchrun) or `--num_machines` (accelerate) with the number of nodes of the step. Both
default to 1. Launches in the background, in a loop, or on named nodes are not checked: several steps may form
one group.

## Why it matters
If the number is too large, the launcher waits for nodes that never join, until it times out. If it is too
small, each node trains on its own or is rejected.

## Example
    #SBATCH --nodes=2
    srun torchrun --nnodes=4 ... train.py

## Use instead
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 ... train.py

`--nnodes="$SLURM_JOB_NUM_NODES"` always matches the header.

## When to ignore
If the launch is elastic, and other steps or jobs join it.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import NODE_OPTIONS, nodes_of, replace_value
from slurmgen.text import counted

CODE = "SG204"
SEVERITY = "error"
SUMMARY = "the launcher and Slurm have different numbers of nodes"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the number of nodes of the launcher with that of the step."""
    for launch in script.launches:
        name = NODE_OPTIONS.get(launch.kind)
        if name is None or launch.step is None or "standalone" in launch.options.given or _is_part(launch):
            continue
        shape, configured = script.step(launch), nodes_of(launch)
        if shape.nodes and shape.ntasks_per_node == 1 and configured and configured != shape.nodes:
            yield Finding(
                launch.span,
                f"{launch.kind} is configured for {counted(configured, 'node')}, but runs on {shape.nodes}",
                f"write `--{name.replace('-', '_')}={shape.nodes}`",
                _corrected(script, launch, name, shape.nodes),
            )


def _corrected(script: Script, launch: Launch, name: str, nodes: int) -> tuple[Edit, ...]:
    given = launch.options.given.get(name)
    return replace_value(script, given, str(nodes)) if given else ()


def _is_part(launch: Launch) -> bool:
    """Whether other steps may run the same program on the other nodes."""
    options = launch.step.options.given if launch.step else {}
    return bool(
        {"background", "loop"} & set(launch.command.place) or {"nodelist", "relative"} & options.keys()
    )
