"""edf: the Container Engine of CSCS, which reads an environment definition file.

The image of a request is the file's path or its name in ~/.edf. Mounts stand in that file.
https://docs.cscs.ch/software/container-engine/run/
"""

from slurmgen.containers.base import Call, Engine


def _options(call: Call) -> tuple[str, ...]:
    return (f"--environment={call.image}", *call.options)


EDF = Engine(srun=_options, takes_binds=False)
