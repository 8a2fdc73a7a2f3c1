"""A container is started without its GPU flag.

## What it finds
In a job with GPUs, `apptainer` or `singularity` without `--nv` or `--rocm`, podman and docker without a GPU
option, where a rank runs inside. Sites that bring the driver in by a module of bindings pass.

## Why it is bad
The driver's libraries stay outside; PyTorch finds no GPU and trains on the CPU, or stops.

## Example
    srun apptainer exec pytorch.sif python train.py

## Use instead
    srun apptainer exec --nv pytorch.sif python train.py

`--rocm` on AMD.

## Reference
https://apptainer.org/docs/user/main/gpu.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import loads_module

CODE = "SG503"
SEVERITY = "error"
SUMMARY = "a container without its GPU flag sees no GPU"

_FLAGS = {
    "apptainer": ("nv", "nvccli", "rocm"),
    "podman": ("gpu", "gpus", "device", "privileged", "runtime"),
}
_SWITCHES = {
    f"{engine}_{flag}" for engine in ("APPTAINER", "SINGULARITY") for flag in ("NV", "ROCM", "NVCCLI")
}


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the containers around launches."""
    if not script.job.has_gpus or loads_module(script, "bindings"):
        return
    for launch in script.launches:
        for layer in launch.layers:
            flags = _FLAGS.get(layer.kind)
            if flags and layer.options.lacks(*flags) and not _is_switched(launch):
                yield Finding(
                    layer.word.span,
                    f"{layer.word.text.rpartition('/')[2]} brings no GPU into the container",
                    f"add `--{flags[0]}`" + (", or `--rocm` on AMD" if layer.kind == "apptainer" else ""),
                )


def _is_switched(launch: Launch) -> bool:
    return bool(_SWITCHES & launch.env.keys())
