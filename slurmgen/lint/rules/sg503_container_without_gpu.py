"""A container is started without a GPU option.

## What it checks
In jobs with GPUs, checks for launches in `apptainer` or `singularity` without `--nv` or `--rocm`, and in
podman or docker without a GPU option. A script that sets a variable such as `APPTAINER_NV`, or loads a module
whose name contains "bindings", is not reported: at some sites, such a module binds the driver. Neither is a
launch with ROCm in the name of its image or of a loaded module, or in a GPU partition of LUMI: the image then
contains the libraries, and the devices are visible in every container.

## Why it matters
The libraries of the GPU driver are not visible in the container. PyTorch finds no GPU, and stops or trains on
the CPU.

## Example
    srun apptainer exec pytorch.sif python train.py

## Use instead
    srun apptainer exec --nv pytorch.sif python train.py

Use `--rocm` for AMD GPUs.

## When to ignore
If the site binds the driver into every container.

## Reference
https://apptainer.org/docs/user/main/gpu.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import is_amd, loads_module

CODE = "SG503"
SEVERITY = "error"
SUMMARY = "a container without a GPU option has no GPUs"

_FLAGS = {
    "apptainer": ("nv", "nvccli", "rocm"),
    "podman": ("gpu", "gpus", "device", "privileged", "runtime"),
}
_GPU_VARIABLES = {
    f"{engine}_{flag}" for engine in ("APPTAINER", "SINGULARITY") for flag in ("NV", "ROCM", "NVCCLI")
}


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the containers that launches run in."""
    if not script.job.has_gpus or loads_module(script, "bindings") or is_amd(script):
        return
    for launch in script.launches:
        for layer in launch.layers:
            flags = _FLAGS.get(layer.kind)
            if (
                flags
                and layer.options.lacks(*flags)
                and not (_has_gpu_variable(launch) or _uses_rocm(launch))
            ):
                yield Finding(
                    layer.word.span,
                    f"{layer.word.text.rpartition('/')[2]} has no GPU option, so the container has no GPU",
                    f"add `--{flags[0]}`" + (" (AMD GPUs: `--rocm`)" if layer.kind == "apptainer" else ""),
                )


def _uses_rocm(launch: Launch) -> bool:
    return any("rocm" in word.text.lower() for word in launch.command.words)


def _has_gpu_variable(launch: Launch) -> bool:
    return bool(_GPU_VARIABLES & launch.env.keys())
