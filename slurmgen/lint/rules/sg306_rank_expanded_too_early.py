"""A rank variable is expanded in the batch script instead of in the task.

## What it checks
Checks for `$SLURM_NODEID`, `$SLURM_PROCID` and `$SLURM_LOCALID` that the batch script expands for a step with
several tasks: on the srun line outside single quotes, or in a variable that is set before and used by the
step. A `--node-rank` that the launcher ignores, because its rendezvous is dynamic, is not reported, nor a
rank in a path, nor an exported `RANK` or `LOCAL_RANK` that the launcher sets itself.

## Why it matters
In the batch script these variables are always 0. Every node or task gets rank 0, and all of them wait for
each other forever.

## Example
    srun torchrun --node-rank=$SLURM_NODEID ... train.py

## Use instead
    srun bash -c 'torchrun --node-rank="$SLURM_NODEID" ... train.py'

## When to ignore
If only the first task uses the value.

## Reference
huggingface/accelerate issue 2816
"""

import re
from collections.abc import Callable, Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Assignment, Launch, Script, Shape, Span
from slurmgen.lint.reader.words import Word
from slurmgen.lint.rules.common import FRAMEWORKS, steps

CODE = "SG306"
SEVERITY = "error"
SUMMARY = "a rank variable is expanded in the batch script, where it is 0"

_COUNTS: dict[str, Callable[[Shape], int | None]] = {
    "SLURM_NODEID": lambda shape: shape.nodes,
    "SLURM_PROCID": lambda shape: shape.ntasks,
    "SLURM_LOCALID": lambda shape: shape.ntasks_per_node,
}
"The number of values that each variable has in a step."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the words of each srun, and the variables that they use."""
    seen: set[Span] = set()
    for launch in steps(script):
        several = _several(script.step(launch))
        for word in launch.command.words:
            early = sorted(name for name in word.names & several if _matters(launch, word, name))
            if early and word.span not in seen:
                seen.add(word.span)
                yield _finding(word.span, early[0])
        for found in script.shell.assignments:
            early = sorted(found.names & several)
            if early and found.span not in seen and _is_used(found, _exported(launch) | _names(launch)):
                seen.add(found.span)
                yield _finding(found.span, early[0])


_RANKS = {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}
"Variables that launchers set for their ranks, whatever their value was."


def _exported(launch: Launch) -> set[str]:
    """The environment variables that reach the training script."""
    return set(launch.env) - (_RANKS if launch.kind in FRAMEWORKS else set())


def _several(shape: Shape) -> set[str]:
    return {name for name, count in _COUNTS.items() if (count(shape) or 0) > 1}


_NODE_RANK = re.compile(r"--(?:node|machine)[-_]rank[= ]\S*")


def _matters(launch: Launch, word: Word, name: str) -> bool:
    """Whether a word uses the variable for more than a `--node-rank` that torchrun ignores."""
    if launch.options.text("rdzv-backend") in (None, "static"):
        return True
    node_rank = launch.options.given.get("node-rank") or launch.options.given.get("machine-rank")
    if node_rank and node_rank.word == word and not word.raw.startswith("-"):
        return False
    return bool(re.search(rf"(?<!\\)\$\{{?{name}\b", _NODE_RANK.sub("", word.raw)))


def _names(launch: Launch) -> set[str]:
    """The variables in the words of a launch that matter."""
    return {name for word in launch.command.words for name in word.names if _matters(launch, word, name)}


def _is_used(found: Assignment, names: set[str]) -> bool:
    return found.name in names and not re.search(r"bash|/", found.raw)


def _finding(span: Span, name: str) -> Finding:
    return Finding(
        span,
        f"the batch script expands ${name} to 0, so every task gets rank 0",
        f"expand it in the task: srun bash -c '... \"${name}\" ...'",
    )
