"""charliecloud: `ch-run` on an image folder or a SquashFS file, once per task.

The host's variables reach the container; the image's own are not set. Bind targets must exist in the image.
https://hpc.github.io/charliecloud/ch-run.html
"""

from slurmgen.containers.base import Call, Engine


def _run(call: Call) -> tuple[str, ...]:
    binds = (f"--bind={bind}" for bind in ('"$PWD:/mnt/0"', *call.binds))
    return ("ch-run", "--cd=/mnt/0", *binds, *call.options, call.image, "--")


CHARLIECLOUD = Engine(command=_run, can_requeue=False)
