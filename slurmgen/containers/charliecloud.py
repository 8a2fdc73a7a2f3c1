"""charliecloud: `ch-run` on an image folder or a SquashFS file, once per task.

The host's variables reach the container, with the host's PATH. `--set-env` sets those of the image over
them, such as its PATH; only images that ch-image made have the file with them. Bind targets must exist in
the image; ch-image and ch-convert give it /mnt/0 to /mnt/9. There is no GPU option: `ch-fromhost --nvidia`
copies the driver's libraries into an image folder.
https://charliecloud.io/latest/ch-run.html https://charliecloud.io/latest/ch-fromhost.html
"""

from slurmgen.containers.base import DOCKER, Call, Engine, Fetch


def _run(call: Call) -> tuple[str, ...]:
    of_image = ("--set-env",) if call.fetched else ()
    binds = (f"--bind={bind}" for bind in ('"$PWD:/mnt/0"', *call.binds))
    return ("ch-run", "--cd=/mnt/0", *of_image, *binds, *call.options, call.image, "--")


CHARLIECLOUD = Engine(
    command=_run,
    program="ch-run",
    is_file=lambda image: "/" in image and not image.startswith(DOCKER),
    fetch=Fetch(
        lambda image: image.startswith(DOCKER),
        "ch-image pull {name} && ch-convert --in-fmt=ch-image --out-fmt=squash {name} {file}",
        ".sqfs",
    ),
    bind_options=False,
    binds_any_target=False,
    can_requeue=False,
)
