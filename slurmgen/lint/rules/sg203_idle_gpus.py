"""Fewer ranks on a node than GPUs.

## What it finds
The only launch of a job starts fewer ranks on a node than GPUs are asked for there. torchrun starts one
where nothing is said.

## Why it is bad
The other GPUs idle and are paid for.

## Example
    #SBATCH --gres=gpu:4
    srun torchrun --standalone train.py

## Use instead
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc-per-node=4 train.py

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import FRAMEWORKS, procs_of, replace_value, starters
from slurmgen.wording import counted

CODE = "SG203"
SEVERITY = "warning"
SUMMARY = "some of a node's GPUs have no rank"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the ranks of a node with its GPUs, where nothing else can use them."""
    if len(script.launches) != 1 or any(script.assigned("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")):
        return
    for launch in starters(script):
        shape, procs = script.step(launch), procs_of(script, launch)
        gpus = shape.gpus_per_node
        wanted = FRAMEWORKS[launch.kind].procs_per_task(gpus or 1)
        alone = shape.ntasks_per_node == 1 and not {"background", "loop"} & set(launch.command.place)
        if gpus and procs and procs < wanted and alone and "CUDA_VISIBLE_DEVICES" not in launch.env:
            ranks = counted(procs, "rank")
            yield Finding(
                launch.span,
                f"{launch.kind} starts {ranks} on a node with {gpus} GPUs; {gpus - procs} idle",
                f"start {wanted} ranks a node, or ask for fewer GPUs",
                _more(script, launch, wanted),
            )


def _more(script: Script, launch: Launch, wanted: int) -> tuple[Edit, ...]:
    given = launch.options.given.get("nproc-per-node")
    return replace_value(script, given, str(wanted)) if given else ()
