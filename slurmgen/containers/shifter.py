"""shifter: NERSC's container runtime, once per task. The host's variables reach the container.

https://docs.nersc.gov/development/containers/shifter/how-to-use/
"""

from slurmgen.containers.base import Call, Engine, with_target


def _run(call: Call) -> tuple[str, ...]:
    volumes = (f"--volume={bind}" for bind in map(with_target, call.binds))
    return ("shifter", f"--image={call.image}", *volumes, *call.options)


SHIFTER = Engine(command=_run)
