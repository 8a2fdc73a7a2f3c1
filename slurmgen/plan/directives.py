"""The two directives whose form depends on the site: GPUs and memory."""

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import ask_for
from slurmgen.launchers import Layout
from slurmgen.sites.model import GpuRequest, Site
from slurmgen.slurm import sizes


def gpu_directive(form: GpuRequest, gpu_type: str | None, layout: Layout) -> tuple[tuple[str, str], ...]:
    """The GPUs in the form that the site requires: per node or, on one node, of the whole job;
    empty where the site refuses it.

    On several nodes `--gpus` lets Slurm spread them unevenly (seen on 22.05: three and one).
    """
    if form == "none" or not layout.gpus:
        return ()
    if form == "gpus" and layout.nodes > 1:
        form = "gpus-per-node"
    kind = f"{gpu_type}:" if gpu_type else ""
    forms = {
        "gres": f"gpu:{kind}{layout.gpus_per_node}",
        "gpus-per-node": f"{kind}{layout.gpus_per_node}",
        "gpus": f"{kind}{layout.gpus}",
    }
    return ((form, forms[form]),)


def mem_directive(site: Site, mem: str | None, layout: Layout, cpus: int) -> tuple[tuple[str, str], ...]:
    """The memory of a node with so many CPUs in the form that the site requires; empty where it allows none.

    Divided memory is rounded down, so that the sum fits the node.

    Raises:
        RequestError: less than one megabyte is left when divided.
    """
    if mem is None:
        return ()
    if site.memory.form in ("mem", "optional") or (site.memory.form == "mem-per-gpu" and not layout.gpus):
        return (("mem", mem),)
    shares = {
        "mem-per-gpu": layout.gpus_per_node,
        "mem-per-cpu": cpus,
    }
    share = shares[site.memory.form]
    part = sizes.megabytes(mem) // share
    if not part:
        units = "GPUs" if site.memory.form == "mem-per-gpu" else "CPUs"
        raise RequestError(
            f"{option('mem', mem)} per node is less than 1M for each of {share} {units}, "
            f"as {site.name} requires",
            ask_for("mem", f"{share}M", bound="at least"),
        )
    return ((site.memory.form, sizes.canonical(part)),)
