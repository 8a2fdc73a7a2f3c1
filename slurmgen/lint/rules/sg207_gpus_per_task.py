"""`--gpus-per-task` hides the GPUs of a node from the other tasks.

## What it checks
Checks for `--gpus-per-task`, or `--ntasks-per-gpu` or `--tres-per-task` with GPUs, in the header or on srun,
with several tasks per node and without
`--gpu-bind=none` or `--gres-flags=allow-task-sharing`. Jobs for AMD GPUs are not reported: their centers
recommend one GPU for each task.

## Why it matters
Each rank sees only its own GPU. NCCL cannot access the others directly, and falls back to a slower transport
or fails. Lightning stops: "requested [0..3], machine only has [0]".

## Example
    #SBATCH --ntasks-per-node=4
    #SBATCH --gpus-per-task=1

## Use instead
    #SBATCH --ntasks-per-node=4
    #SBATCH --gpus-per-node=4

## When to ignore
If the ranks exchange nothing between their GPUs.

## Reference
NVIDIA/nccl issue 1066 ; Lightning-AI/pytorch-lightning issue 16828
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.rules.common import is_amd

CODE = "SG207"
SEVERITY = "warning"
SUMMARY = "--gpus-per-task hides the GPUs of a node from the other tasks"


_OPTIONS = ("gpus-per-task", "ntasks-per-gpu", "tres-per-task")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check each launch with several tasks per node."""
    if is_amd(script):
        return
    seen = set()
    for launch in script.launches:
        tasks = script.step(launch).ntasks_per_node
        place = _place(script, launch)
        if place and place not in seen and tasks and tasks > 1 and not _unbound(script, launch):
            seen.add(place)
            yield Finding(
                place,
                f"each of the {tasks} tasks on a node sees only its own GPUs",
                "request the GPUs per node: `--gres=gpu:N` or `--gpus-per-node=N`",
            )


def _place(script: Script, launch: Launch) -> Span | None:
    if launch.step is None:
        return None
    given = next(filter(None, map(launch.step.options.given.get, _OPTIONS)), None)
    directive = next(filter(None, map(script.header.last, _OPTIONS)), None)
    if script.step(launch).visible_gpus is None:
        return None
    return given.word.span if given else directive.span if directive else None


def _unbound(script: Script, launch: Launch) -> bool:
    given = launch.step.options.given.get("gpu-bind") if launch.step else None
    binding = given.value if given else script.header.value("gpu-bind")
    flags = launch.step.options.given.get("gres-flags") if launch.step else None
    sharing = (flags.value if flags else script.header.value("gres-flags")) or ""
    return (
        binding == "none"
        or "allow-task-sharing" in sharing
        or any(script.assigned("SLURM_GPU_BIND", "CUDA_VISIBLE_DEVICES"))
    )
