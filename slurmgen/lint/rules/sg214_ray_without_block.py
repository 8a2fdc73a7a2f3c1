"""srun starts Ray in the background, and Slurm ends it with the step.

## What it checks
Checks for `ray start` without `--block` as the command of srun. In a shell that srun starts, other commands
may follow it; then nothing is reported.

## Why it matters
`ray start` returns as soon as Ray runs. Its task has then ended, and with the step Slurm kills all processes
that the step has left (with `proctrack/cgroup`, its default). The program finds no Ray.

## Example
    srun --nodes=1 --ntasks=1 ray start --head --port="$PORT"
    python train.py

## Use instead
    srun --nodes=1 --ntasks=1 ray start --head --port="$PORT" --block &
    python train.py

## When to ignore
If the site's ProctrackType does not find processes that detach themselves.

## Reference
https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html
https://slurm.schedmd.com/slurm.conf.html#OPT_ProctrackType
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG214"
SEVERITY = "warning"
SUMMARY = "Ray ends with the step that starts it"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Search the steps for `ray start` that does not wait."""
    for launch in script.launches:
        if (
            launch.kind == "ray"
            and launch.step
            and not launch.under("shell")
            and launch.options.lacks("block")
        ):
            yield Finding(
                launch.span,
                "ray start returns at once, and Slurm ends the processes of a step with its tasks",
                "add `--block`, and start the step in the background with `&`",
            )
