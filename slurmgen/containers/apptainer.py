"""apptainer and singularity: `apptainer exec` inside the step, once per task.

The host's variables reach the container unless its image sets them too; one named
APPTAINERENV_NAME wins over the image, and unlike `--env` its value may hold a comma.
https://apptainer.org/docs/user/main/environment_and_metadata.html
"""

from slurmgen.containers.base import Call, Engine

_GPU_FLAGS = {"nvidia": "--nv", "amd": "--rocm"}


def _exec(program: str, call: Call) -> tuple[str, ...]:
    binds = (f"--bind={bind}" for bind in call.binds)
    return (program, "exec", _GPU_FLAGS[call.vendor], *call.options, *binds, call.image)


APPTAINER = Engine(
    command=lambda call: _exec("apptainer", call), env_prefix="APPTAINERENV_", refused_variables=("HOME",)
)
SINGULARITY = Engine(
    command=lambda call: _exec("singularity", call), env_prefix="SINGULARITYENV_", refused_variables=("HOME",)
)
