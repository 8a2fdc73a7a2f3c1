"""Many tasks run `uv run` at once.

## What it finds
`uv run` inside an srun of several tasks, without `--no-sync`.

## Why it is bad
Each task first brings the environment up to date. On a shared file system they race, and some see a half made
one; every start of the job also waits for it.

## Example
    srun uv run python train.py

## Use instead
    uv sync --locked
    srun .venv/bin/python train.py

Or `srun uv run --no-sync python train.py` after the sync.

## Reference
https://docs.astral.sh/uv/reference/cli/#uv-run
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import steps

CODE = "SG504"
SEVERITY = "warning"
SUMMARY = "tasks race to make one uv environment"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for uv inside of steps with several tasks."""
    for launch in steps(script):
        tasks = script.step(launch).ntasks or 1
        uv = launch.under("uv")
        if (
            uv
            and tasks > 1
            and _is_inside(launch)
            and uv.options.lacks("no-sync")
            and "UV_NO_SYNC" not in launch.env
        ):
            yield Finding(
                uv.word.span,
                f"{tasks} tasks run `uv run` at once and race to make one environment",
                "run `uv sync` once before srun, then .venv/bin/python, or `uv run --no-sync`, in the step",
            )


def _is_inside(launch: Launch) -> bool:
    kinds = [layer.kind for layer in launch.layers]
    return kinds.index("srun") < kinds.index("uv")
