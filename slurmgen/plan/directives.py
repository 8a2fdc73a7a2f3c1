"""The two directives whose form differs from site to site: GPUs and memory."""

from functools import lru_cache

from slurmgen.errors import RequestError
from slurmgen.launchers import Geometry
from slurmgen.sites.model import GpuRequest, Site
from slurmgen.slurm import sizes


@lru_cache(maxsize=1024)
def gpu_directive(form: GpuRequest, gpu_type: str | None, geometry: Geometry) -> tuple[str, str]:
    """The GPUs in the form that a site wants, of a node or, on one node, of the whole job.

    On several nodes `--gpus` lets Slurm deal them out unevenly (seen on 22.05: three here, one there).
    """
    if form == "gpus" and geometry.nodes > 1:
        form = "gpus-per-node"
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

    Raises:
        RequestError: nothing is left of it when divided.
    """
    if mem is None:
        return ()
    shares = {
        "mem": 1,
        "mem-per-gpu": geometry.gpus_per_node,
        "mem-per-cpu": geometry.gpus_per_node * cpus_per_gpu,
    }
    share = shares[site.memory.form]
    if site.memory.form == "mem":
        return (("mem", mem),)
    part = sizes.megabytes(mem) // share
    if not part:
        raise RequestError(
            f"--mem {mem} a node is nothing for each of the {share} that {site.name} gives memory to",
            f"Ask for at least --mem {share}M.",
        )
    return ((site.memory.form, sizes.canonical(part)),)
