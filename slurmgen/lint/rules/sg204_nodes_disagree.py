"""The launcher is told another number of nodes than it runs on.

## What it finds
`--nnodes` or `--num_machines` that differs from the nodes of the step, also where it is left out and so is
1.

## Why it is bad
With too many the launcher waits for nodes that never come, until it times out; with too few every node
trains alone, or is turned away.

## Example
    #SBATCH --nodes=2
    srun torchrun --nnodes=4 ... train.py

## Use instead
    #SBATCH --nodes=2
    srun torchrun --nnodes=2 ... train.py

`--nnodes="$SLURM_JOB_NUM_NODES"` is always right.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import nodes_of, replace_value
from slurmgen.wording import counted

CODE = "SG204"
SEVERITY = "error"
SUMMARY = "the launcher and Slurm disagree on the number of nodes"

_NAMES = {"torchrun": "nnodes", "accelerate": "num-machines"}


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare what the launcher is told with the step."""
    for launch in script.launches:
        name = _NAMES.get(launch.kind)
        if name is None or launch.step is None or "standalone" in launch.options.given:
            continue
        shape, told = script.step(launch), nodes_of(launch)
        if shape.nodes and shape.ntasks_per_node == 1 and told and told != shape.nodes:
            yield Finding(
                launch.span,
                f"{launch.kind} is told of {counted(told, 'node')}, but runs on {shape.nodes}",
                f"write `--{name.replace('num-machines', 'num_machines')}={shape.nodes}`",
                _right(script, launch, name, shape.nodes),
            )


def _right(script: Script, launch: Launch, name: str, nodes: int) -> tuple[Edit, ...]:
    given = launch.options.given.get(name)
    return replace_value(script, given, str(nodes)) if given else ()
