"""The two directives whose form differs from site to site: GPUs and memory."""

from functools import lru_cache

from slurmgen.launchers import Geometry
from slurmgen.site import GpuRequest, Site
from slurmgen.slurm import sizes


@lru_cache(maxsize=1024)
def gpu_directive(form: GpuRequest, gpu_type: str | None, geometry: Geometry) -> tuple[str, str]:
    """The GPUs in the form that a site wants: of a node, or `gpus` of the whole job."""
    kind = f"{gpu_type}:" if gpu_type else ""
    forms = {
        "gres": f"gpu:{kind}{geometry.gpus_per_node}",
        "gpus-per-node": f"{kind}{geometry.gpus_per_node}",
        "gpus": f"{kind}{geometry.world_size}",
    }
    return form, forms[form]


def mem_directive(
    site: Site, mem: str | None, geometry: Geometry, cpus_per_gpu: int
) -> tuple[tuple[str, str], ...]:
    """The memory of a node in the form that the site wants; nothing where it wants none.

    Divided memory is rounded down, so that the sum fits the node.
    """
    if mem is None:
        return ()
    shares = {
        "mem": 1,
        "mem-per-gpu": geometry.gpus_per_node,
        "mem-per-cpu": geometry.gpus_per_node * cpus_per_gpu,
    }
    share = shares[site.memory.form]
    return ((site.memory.form, mem if share == 1 else sizes.canonical(sizes.megabytes(mem) // share)),)
