"""A loop over the nodes starts one launcher after the other.

## What it checks
Checks for launchers that are configured for several nodes, on a named node or one node, in a loop, and not in
the background.

## Why it matters
The first launcher waits for the others, which the loop starts only after it has ended.

## Example
    for i in 0 1; do
      srun -N1 -n1 -w "${nodes[i]}" torchrun --nnodes=2 --node-rank=$i ... train.py
    done

## Use instead
    for i in 0 1; do
      srun -N1 -n1 -w "${nodes[i]}" torchrun --nnodes=2 --node-rank=$i ... train.py &
    done
    wait

## When to ignore
If the loop runs once, with all nodes in one srun.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import nodes_of, rank_launchers

CODE = "SG213"
SEVERITY = "error"
SUMMARY = "a loop over the nodes waits for its first launch"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search the loops for launchers of a group that start on one node."""
    for launch in rank_launchers(script):
        place = launch.command.place
        options = launch.step.options if launch.step else None
        on_one = options and ("nodelist" in options.given or options.number("nodes") == 1)
        nodes = nodes_of(launch)
        is_group = (nodes or 0) > 1 or (nodes is None and "node-rank" in launch.options.given)
        if (on_one or launch.under("ssh")) and is_group and "loop" in place and "background" not in place:
            yield Finding(
                launch.span,
                f"the loop waits for this {launch.kind}, which waits for those on the other nodes",
                "start it in the background with `&`, and add `wait` after the loop",
            )
