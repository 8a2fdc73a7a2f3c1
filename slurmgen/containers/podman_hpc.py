"""podman-hpc: NERSC's wrapper of podman, once per task.

Only the named variables reach the container, so Slurm's are passed by pattern.
https://docs.nersc.gov/development/containers/podman-hpc/overview/
"""

from slurmgen.containers.base import Call, Engine, with_target

_ALWAYS = ("'SLURM_*'", "MASTER_ADDR", "MASTER_PORT", "REQUEUE_FILE")


def _run(call: Call) -> tuple[str, ...]:
    variables = (f"--env={name}" for name in (*_ALWAYS, *call.exported))
    volumes = (f"--volume={bind}" for bind in ('"$PWD:$PWD"', *map(with_target, call.binds)))
    fixed = ("podman-hpc", "run", "--rm", "--gpu", "--ipc=host", "--network=host", '--workdir="$PWD"')
    return (*fixed, *variables, *volumes, *call.options, call.image)


PODMAN_HPC = Engine(command=_run)
