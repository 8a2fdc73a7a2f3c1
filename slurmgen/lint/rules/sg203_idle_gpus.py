"""A launcher starts fewer ranks on a node than there are GPUs.

## What it checks
If a job has only one launch, compares its ranks on a node with the GPUs that the job requests per node.
torchrun starts one rank unless `--nproc-per-node` is given. A script that sets `CUDA_VISIBLE_DEVICES` to
anything but a list of numbers, or `ROCR_VISIBLE_DEVICES`, is not reported. Also checks for Python that starts
once, without srun, in a job with a task for each GPU.

## Why it matters
The remaining GPUs are idle but are charged to the account.

## Example
    #SBATCH --gres=gpu:4
    srun torchrun --standalone train.py

## Use instead
    #SBATCH --gres=gpu:4
    srun torchrun --standalone --nproc-per-node=4 train.py

## When to ignore
If the remaining GPUs are used by another program, or hold data.

## Reference
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import (
    FRAMEWORKS,
    in_force,
    procs_of,
    rank_launchers,
    runs_a_shell_script,
    visible_gpus,
    words_of,
)
from slurmgen.text import counted

CODE = "SG203"
SEVERITY = "warning"
SUMMARY = "some GPUs of a node have no rank"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the ranks of a node with its GPUs, if nothing else can use the GPUs."""
    yield from _started_once(script)
    if len(script.launches) != 1 or any(script.assigned("ROCR_VISIBLE_DEVICES")):
        return
    for launch in rank_launchers(script):
        shape, procs = script.step(launch), procs_of(script, launch)
        gpus = shape.gpus_per_node
        wanted = FRAMEWORKS[launch.kind].procs_per_task(gpus or 1)
        alone = shape.ntasks_per_node == 1 and not {"background", "loop"} & set(launch.command.place)
        alone = alone and not _is_difference(script, launch)
        if gpus and procs and procs < wanted and alone and _sees_no_other(launch):
            ranks = counted(procs, "rank")
            yield Finding(
                launch.span,
                f"{launch.kind} starts {ranks} on a node with {gpus} GPUs: {gpus - procs} idle",
                f"start {wanted} ranks per node, or request fewer GPUs",
            )


def _is_difference(script: Script, launch: Launch) -> bool:
    """Whether the number of ranks is computed as a difference, which keeps GPUs for another program."""
    given = launch.options.given.get("num-processes") or launch.options.given.get("nproc-per-node")
    found = in_force(script, launch, set(given.word.names)) if given else ()
    return bool(given and " - " in given.word.raw) or any(re.search(r"\d\s*-\s*\d", f.raw) for f in found)


def _sees_no_other(launch: Launch) -> bool:
    """Whether the launch may use all GPUs, or those of a constant list."""
    return "CUDA_VISIBLE_DEVICES" not in launch.env or visible_gpus(launch) is not None


def _started_once(script: Script) -> Iterator[Finding]:
    """Python without srun in a job with a task for each GPU."""
    gpus, tasks = script.job.gpus_per_node, script.job.ntasks_per_node
    if len(script.started) != 1 or not gpus or gpus < 2 or tasks != gpus:
        return
    launch = script.started[0]
    is_main = launch.script is not None and not {"background", "output"} & set(launch.command.place)
    if (
        launch.kind == "python"
        and not launch.layers
        and is_main
        and not runs_a_shell_script(words_of(script))
    ):
        yield Finding(
            launch.span,
            f"the header has {tasks} tasks for {gpus} GPUs, but Python starts once",
            "start it with `srun`, or with torchrun and one task per node",
        )
