"""podman, and NERSC's wrapper podman-hpc: `run` inside the step, once per task.

Only named variables reach the container: those that the script exports, and by pattern those of Slurm and
of NCCL and its network, which modules set. They count over those of the image. Slurm's choice of GPUs is
a variable too. Each node has its own store of images; podman-hpc copies a pulled image to one that all
nodes see. `--pull=never`: the script pulls, not every rank.
https://docs.podman.io/en/latest/markdown/podman-run.1.html
https://docs.nersc.gov/development/containers/podman-hpc/overview/
https://github.com/NERSC/podman-hpc

GPUs: NVIDIA's are devices of the Container Device Interface, or podman-hpc's `--gpu`; AMD's are device files.
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html
https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html
"""

from slurmgen.containers.base import (
    AMD_DEVICES,
    Call,
    Engine,
    Fetch,
    fault_of_file,
    full_name,
    with_target,
)
from slurmgen.sites.model import Vendor

_ALWAYS = ("'SLURM_*'", "MASTER_ADDR", "MASTER_PORT", "REQUEUE_FILE", "STOP_FILE", "'NCCL_*'", "'FI_*'")
_VISIBLE: dict[Vendor | None, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    None: (),
}
_FIXED = ("--ipc=host", "--network=host", '--workdir="$PWD"', "--pull=never")


def _engine(program: str, nvidia: str, *, on_each_node: bool = False) -> Engine:
    gpus: dict[Vendor | None, tuple[str, ...]] = {"nvidia": (nvidia,), "amd": AMD_DEVICES, None: ()}

    def run(call: Call) -> tuple[str, ...]:
        names = dict.fromkeys((*_ALWAYS, *_VISIBLE[call.vendor], *call.exported))
        variables = (f"--env={name}" for name in names)
        volumes = (f"--volume={bind}" for bind in ('"$PWD:$PWD"', *map(with_target, call.binds)))
        fixed = (program, "run", "--rm", *gpus[call.vendor], *_FIXED)
        return (*fixed, *variables, *volumes, *call.options, call.image)

    return Engine(
        command=run,
        program=program,
        image=full_name,
        image_fault=fault_of_file,
        is_file=lambda _image: False,
        lookup=f"{program} image exists {{image}}",
        # An image of `localhost` is in the store only.
        fetch=Fetch(
            lambda image: not image.startswith("localhost/"),
            f"{program} pull {{image}}",
            on_each_node=on_each_node,
        ),
    )


PODMAN = _engine("podman", "--device=nvidia.com/gpu=all", on_each_node=True)
PODMAN_HPC = _engine("podman-hpc", "--gpu")
