"""shifter: NERSC's container runtime, once per task.

The host's variables reach the container unless its image sets them too. The working folder stays current
where the site makes it visible, as NERSC does with its file systems. An image is TYPE:NAME, by default
docker:NAME; the site's gateway pulls it, once for the whole cluster. `;` separates volumes.
https://docs.nersc.gov/development/containers/shifter/how-to-use/
https://github.com/NERSC/shifter/blob/master/doc/command/shifter.rst
"""

from slurmgen.containers.base import DOCKER, Call, Engine, Fetch, fault_of_file, with_target


def _run(call: Call) -> tuple[str, ...]:
    volumes = (f"--volume={bind}" for bind in map(with_target, call.binds))
    return ("shifter", f"--image={call.image}", *volumes, *call.options)


def _image(image: str) -> str:
    return f"docker:{image.removeprefix(DOCKER)}" if image.startswith(DOCKER) else image


SHIFTER = Engine(
    command=_run,
    program="shifter",
    image=_image,
    image_fault=fault_of_file,
    is_file=lambda _image: False,
    lookup="shifterimg lookup {image} >/dev/null",
    fetch=Fetch(lambda image: not image.startswith("id:"), "shifterimg pull {image}", needs_internet=False),
    not_in_binds=";",
)
