"""pyxis: NVIDIA's Slurm plug-in, which runs a step in an enroot container through options of srun.

enroot writes an image as [USER@][REGISTRY#]IMAGE[:TAG], or as a path that contains a slash. pyxis imports the
former on every node, so the script imports it to a file first. Mounts are separated by commas; a blank in one
breaks older versions.
https://github.com/NVIDIA/pyxis#usage https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md

The image's variables win over the host's, except those that `--container-env` names (pyxis 0.17 and later).
All that the script exports are named, because enroot's hook for PyTorch sets MASTER_ADDR, MASTER_PORT and
OMP_NUM_THREADS where they are not. It also sets RANK, LOCAL_RANK and WORLD_SIZE from Slurm's variables. That
does no harm: torchrun and accelerate set them for each of their ranks, and Lightning reads Slurm's.
https://github.com/NVIDIA/enroot/blob/master/conf/hooks/extra/50-slurm-pytorch.sh
GPUs need no option: enroot's hook adds them where the image sets NVIDIA_VISIBLE_DEVICES.
"""

import re

from slurmgen.containers.base import DOCKER, Call, Engine, Fetch, with_target
from slurmgen.slurm.shell import in_one_word

_REGISTRY = re.compile(r"^((?:[\w$.-]+@)?[\w-]+\.[\w.-]+(?::\d+)?)/(?=[^#]*$)")
_ALWAYS = ("MASTER_ADDR", "MASTER_PORT")


def _image(image: str) -> str:
    """The image as enroot writes it: nvcr.io#nvidia/pytorch:25.06-py3, or ./image.sqsh."""
    if image.endswith((".sqsh", ".squashfs")):
        return image if "/" in image or image.startswith("~") else f"./{image}"
    return _REGISTRY.sub(r"\1#", image.removeprefix(DOCKER))


def _is_file(image: str) -> bool:
    return image.startswith(("/", "./", "../", "~/", "$")) or image.endswith((".sqsh", ".squashfs"))


def _options(call: Call) -> tuple[str, ...]:
    mounts = in_one_word(('"$PWD:$PWD"', *map(with_target, call.binds)), ",")
    names = dict.fromkeys((*_ALWAYS, *call.exported))
    return (
        f"--container-image={call.image}",
        f"--container-mounts={mounts}",
        '--container-workdir="$PWD"',
        f"--container-env={','.join(names)}",
        *call.options,
    )


PYXIS = Engine(
    srun=_options,
    srun_option="--container-image",
    image=_image,
    is_file=_is_file,
    fetch=Fetch(lambda image: not _is_file(image), "enroot import --output {file} {uri}", ".sqsh"),
    not_in_binds=", \t",
)
