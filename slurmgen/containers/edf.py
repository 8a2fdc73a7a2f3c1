"""edf: the Container Engine of CSCS, which reads an environment definition file.

The image of a request is the file's path or its name in ~/.edf (or EDF_PATH). The file names the image, which
the engine pulls once and caches, and the mounts and the working folder; GPUs need no option. The host's
variables reach the container unless its image sets them too. The step starts in the folder of the job, which
a mount must make visible: the default is the folder of the image.
https://docs.cscs.ch/software/container-engine/run/
https://docs.cscs.ch/software/container-engine/edf/
https://docs.cscs.ch/access/jupyterlab/ (--container-workdir)
"""

from slurmgen.containers.base import DOCKER, Call, Engine


def _options(call: Call) -> tuple[str, ...]:
    return (f"--environment={call.image}", '--container-workdir="$PWD"', *call.options)


def _image(image: str) -> str:
    """A name in the search path, or a path; a relative path begins with `./`."""
    is_relative = image.endswith(".toml") and not image.startswith(("/", "./", "../", "~", "$"))
    return f"./{image}" if is_relative else image


def _fault(image: str) -> tuple[str, str] | None:
    if image.endswith(".toml") or not (":" in image or "#" in image or image.endswith(".sqsh")):
        return None
    hint = f'Write `image = "{image.removeprefix(DOCKER)}"` and the mounts to a file, and name that file.'
    return "is an image, and the engine reads an environment definition file", hint


_LOOKUP = (
    "for folder in $(printf %s \"${{EDF_PATH:-$HOME/.edf}}\" | tr : ' '); do "
    '[ -r "$folder/"{image}.toml ] && exit; done; exit 1'
)
EDF = Engine(
    srun=_options,
    srun_option="--environment",
    image=_image,
    image_fault=_fault,
    is_file=lambda image: "/" in image,
    lookup=_LOOKUP,
    takes_binds=False,
    binds_any_target=False,
)
