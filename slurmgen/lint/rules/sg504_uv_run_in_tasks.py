"""Several tasks run `uv run` at the same time.

## What it checks
Checks for `uv run` without `--no-sync` under an srun with several tasks.

## Why it matters
Each task updates the environment before it starts. On a shared file system the updates race, and some tasks
see an incomplete environment. The updates also delay every start of the job.

## Example
    srun uv run python train.py

## Use instead
    uv sync --locked
    srun .venv/bin/python train.py

Or run `srun uv run --no-sync python train.py` after `uv sync`.

## When to ignore
If the environment is on a local disk of each node, and each node has one task.

## Reference
https://docs.astral.sh/uv/reference/cli/#uv-run
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import steps

CODE = "SG504"
SEVERITY = "warning"
SUMMARY = "tasks update the same uv environment at the same time"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search for uv in steps with several tasks."""
    for launch in steps(script):
        tasks = _tasks(script, launch)
        uv = launch.under("uv")
        if (
            uv
            and tasks > 1
            and _is_inside_step(launch)
            and uv.options.lacks("no-sync")
            and "UV_NO_SYNC" not in launch.env
        ):
            yield Finding(
                uv.word.span,
                f"{tasks} tasks run `uv run` at the same time and update one environment",
                "run `uv sync` before srun, and `.venv/bin/python` or `uv run --no-sync` in the step",
            )


def _is_inside_step(launch: Launch) -> bool:
    kinds = [layer.kind for layer in launch.layers]
    return kinds.index("srun") < kinds.index("uv")


def _tasks(script: Script, launch: Launch) -> int:
    """The least number of tasks of the step."""
    shape = script.step(launch)
    return shape.ntasks or (shape.nodes or 1) * (shape.ntasks_per_node or 1)
