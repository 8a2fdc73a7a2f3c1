"""pyxis: NVIDIA's Slurm plug-in, which runs a step in an enroot container through options of srun.

enroot writes an image as [REGISTRY#]IMAGE[:TAG], or as a path that contains a slash.
https://github.com/NVIDIA/pyxis#usage
"""

import re

from slurmgen.containers.base import Call, Engine

_REGISTRY = re.compile(r"^([\w-]+\.[\w.-]+(?::\d+)?)/(?=[^#]*$)")


def _image(image: str) -> str:
    """The image as enroot writes it: nvcr.io#nvidia/pytorch:25.06-py3, or ./image.sqsh."""
    if image.endswith(".sqsh"):
        return image if "/" in image else f"./{image}"
    image = image.removeprefix("docker://")
    return _REGISTRY.sub(r"\1#", image)


def _options(call: Call) -> tuple[str, ...]:
    mounts = ",".join(('"$PWD:$PWD"', *call.binds))
    variables = (f"--container-env={','.join(call.variables)}",) if call.variables else ()
    return (
        f"--container-image={call.image}",
        f"--container-mounts={mounts}",
        '--container-workdir="$PWD"',
        *variables,
        *call.options,
    )


PYXIS = Engine(srun=_options, image=_image)
