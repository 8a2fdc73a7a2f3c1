"""apptainer and singularity: `apptainer exec` inside the step, once per task.

The host's variables reach the container unless its image sets them too; one named
APPTAINERENV_NAME wins over the image, and unlike `--env` its value may hold a comma. Those that begin with
APPTAINER, such as APPTAINER_CACHEDIR, are for the program itself.
https://apptainer.org/docs/user/main/environment_and_metadata.html

The working folder is bound and stays current, and a comma separates binds. A bind of a SquashFS file with the
option image-src=/ mounts what is in it.
https://apptainer.org/docs/user/main/bind_paths_and_mounts.html

`exec` of a registry's image converts it in every task, so the script pulls it to a file first.
https://apptainer.org/docs/user/main/cli/apptainer_pull.html
"""

import re

from slurmgen.containers.base import Call, Engine, Fetch

_GPU_FLAGS = {"nvidia": ("--nv",), "amd": ("--rocm",), None: ()}
_REGISTRY = re.compile(r"(docker|oras|library|shub|https?)://")


def _engine(program: str) -> Engine:
    def command(call: Call) -> tuple[str, ...]:
        binds = (f"--bind={bind}" for bind in call.binds)
        return (program, "exec", *_GPU_FLAGS[call.vendor], *call.options, *binds, call.image)

    return Engine(
        command=command,
        program=program,
        env_prefix=f"{program.upper()}ENV_",
        own_variables=("APPTAINER", "SINGULARITY"),
        is_file=lambda image: "://" not in image,
        fetch=Fetch(
            lambda image: _REGISTRY.match(image) is not None, f"{program} pull {{file}} {{image}}", ".sif"
        ),
        not_in_binds=",",
        binds_squashfs=True,
        refused_variables=("HOME",),
    )


APPTAINER = _engine("apptainer")
SINGULARITY = _engine("singularity")
