"""The training script overrides the options of accelerate.

## What it checks
Checks the training script, if the file is available, for `Accelerator(cpu=True)` in a job with GPUs, and for
`Accelerator(mixed_precision=...)` that differs from `--mixed_precision`.

## Why it matters
The training script takes precedence without a warning: the GPUs are idle, or training uses a different
precision than the command line requests.

## Example
    accelerate launch --mixed_precision=bf16 train.py     # Accelerator(mixed_precision="fp16")

## Use instead
    accelerate launch --mixed_precision=bf16 train.py     # Accelerator()

## When to ignore
If the override is meant.

## Reference
https://huggingface.co/docs/accelerate/package_reference/accelerator
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.training_script import calls
from slurmgen.python_source import Call

CODE = "SG703"
SEVERITY = "warning"
SUMMARY = "the training script overrides the options of accelerate"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each Accelerator with the command line and with the job."""
    for launch in script.launches:
        path, accelerators = calls(script, launch, "Accelerator")
        for call in accelerators:
            fact = _on_cpu(script, call) or _precision(launch, call)
            if path and fact:
                yield Finding(
                    launch.span,
                    f"{path.name} line {call.line}: {fact}",
                    "remove it from the training script",
                )


def _on_cpu(script: Script, call: Call) -> str | None:
    on_cpu = call.constants.get("cpu") is True and script.job.has_gpus
    return "cpu=True leaves the job's GPUs idle" if on_cpu else None


def _precision(launch: Launch, call: Call) -> str | None:
    on_command_line, in_script = launch.options.text("mixed-precision"), call.constants.get("mixed_precision")
    if (
        launch.kind != "accelerate"
        or on_command_line is None
        or in_script not in ("no", "fp16", "bf16", "fp8")
        or in_script == on_command_line
    ):
        return None
    return f"mixed_precision={in_script!r} overrides --mixed_precision={on_command_line}"
