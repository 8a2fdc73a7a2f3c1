"""--gpus-per-task hides the GPUs of a node from each other.

## What it finds
`--gpus-per-task` with several tasks on a node, in the header or on srun, without `--gpu-bind=none`.

## Why it is bad
Every rank sees one GPU only. NCCL cannot reach the others directly and falls back to slower ways or fails;
Lightning stops: "requested [0..3], machine only has [0]".

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --gpus-per-task=1

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gpus-per-node=4

## Reference
NVIDIA/nccl issue 1066 ; Lightning-AI/pytorch-lightning issue 16828
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script, Span

CODE = "SG207"
SEVERITY = "error"
SUMMARY = "--gpus-per-task hides a node's GPUs from each other"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at each launch with several tasks on a node."""
    seen = set()
    for launch in script.launches:
        tasks = script.step(launch).ntasks_per_node
        place = _place(script, launch)
        if place and place not in seen and tasks and tasks > 1 and not _unbound(script, launch):
            seen.add(place)
            yield Finding(
                place,
                f"each of the {tasks} tasks on a node sees only its own GPUs",
                "ask for the node's GPUs instead, with --gres=gpu:N or --gpus-per-node=N",
            )


def _place(script: Script, launch: Launch) -> Span | None:
    if launch.step is None:
        return None
    given = launch.step.options.given.get("gpus-per-task")
    directive = script.header.last("gpus-per-task")
    return given.word.span if given else directive.span if directive else None


def _unbound(script: Script, launch: Launch) -> bool:
    given = launch.step.options.given.get("gpu-bind") if launch.step else None
    said = given.value if given else script.header.value("gpu-bind")
    return said == "none" or any(script.assigned("SLURM_GPU_BIND", "CUDA_VISIBLE_DEVICES"))
