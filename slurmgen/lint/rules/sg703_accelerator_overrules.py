"""The training script overrules the accelerate command line.

## What it finds
With the training script at hand, `Accelerator(cpu=True)` in a job with GPUs, and
`Accelerator(mixed_precision=...)` that differs from `--mixed_precision`.

## Why it is bad
What the script says wins, silently: the GPUs idle, or training runs in another precision than asked.

## Example
    accelerate launch --mixed_precision=bf16 train.py     # Accelerator(mixed_precision="fp16")

## Use instead
    accelerate launch --mixed_precision=bf16 train.py     # Accelerator()

## Reference
https://huggingface.co/docs/accelerate/package_reference/accelerator
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.training import Call, calls

CODE = "SG703"
SEVERITY = "warning"
SUMMARY = "the training script overrules accelerate's options"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare each Accelerator with the command and with the job."""
    for launch in script.launches:
        path, accelerators = calls(script, launch, "Accelerator")
        for call in accelerators:
            fact = _on_cpu(script, call) or _precision(launch, call)
            if path and fact:
                yield Finding(
                    launch.span, f"{path.name} line {call.line}: {fact}", "take it out of the script"
                )


def _on_cpu(script: Script, call: Call) -> str | None:
    on_cpu = call.constants.get("cpu") is True and script.job.has_gpus
    return "cpu=True, so the job's GPUs idle" if on_cpu else None


def _precision(launch: Launch, call: Call) -> str | None:
    asked, said = launch.options.text("mixed-precision"), call.constants.get("mixed_precision")
    if (
        launch.kind != "accelerate"
        or asked is None
        or said not in ("no", "fp16", "bf16", "fp8")
        or said == asked
    ):
        return None
    return f"mixed_precision={said!r} overrules --mixed_precision={asked}"
