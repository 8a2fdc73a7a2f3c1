"""Memory of a job: from the request, else the site, else a default; with the reason."""

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import ask_for, leave_out
from slurmgen.launchers import Layout
from slurmgen.plan.cpus import share_of_gpu
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.reasons import NO_FACT, PROFILE, Reason, Reasoned, derived, first, from_profile
from slurmgen.sites.model import Node, Site
from slurmgen.slurm import sizes
from slurmgen.slurm.sbatch_options import leaves_out

DEFAULT_MEM_PER_GPU = "16G"
DEFAULT_MEM_PER_CPU = "4G"
MOST_MEMORY = "64T"
"More per node is taken for a typing error."


def memory(inputs: Inputs, layout: Layout, node: Node, cpus: int) -> Reasoned:
    """Memory of one node, of which the job has so many CPUs; None where the site allows no memory request.

    Raises:
        RequestError: the size is not valid, the site allows none, or a node has less.
    """
    request, site, origin = inputs
    if leaves_out(request.sbatch, "mem"):
        return Reasoned(None, origin("sbatch.mem"))
    if site.memory.form == "none":
        if request.mem:
            raise RequestError(f"{site.name} allows no memory request", leave_out("mem"))
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} request no memory"))
    if site.memory.form == "optional" and not request.mem:
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} need not request memory"))
    if request.mem:
        total, why = _size(request.mem), origin("mem")
    elif layout.gpus:
        total, why = _memory_of_gpus(site, node, layout.gpus_per_node)
    else:
        total, why = _memory_of_cpus(node, cpus)
    if node.memory and total > sizes.megabytes(node.memory):
        raise RequestError(
            f"the job needs {sizes.canonical(total)} per node, but a node of {site.name} has {node.memory}",
            ask_for("mem", node.memory, bound="at most"),
        )
    return Reasoned(sizes.canonical(total) if total else "0", why)


def _memory_of_gpus(site: Site, node: Node, gpus: int) -> tuple[int, Reason]:
    """The megabytes of so many GPUs of a node."""
    per_gpu, source = first(
        (node.memory_per_gpu, from_profile(site, "node.memory_per_gpu")),
        (site.memory.per_gpu, from_profile(site, "memory.per_gpu")),
        (_memory_share(node), derived("a GPU's share of a node")),
        (DEFAULT_MEM_PER_GPU, NO_FACT),
    )
    return sizes.megabytes(per_gpu) * gpus, source.within(f"{per_gpu} per GPU ({{}}) x {gpus} per node")


def _memory_of_cpus(node: Node, cpus: int) -> tuple[int, Reason]:
    """The megabytes of so many CPUs of a node."""
    per_cpu, source = DEFAULT_MEM_PER_CPU, NO_FACT
    if node.cpus and node.memory:
        per_cpu = sizes.canonical(sizes.megabytes(node.memory) // node.cpus)
        source = derived("a CPU's share of a node")
    return sizes.megabytes(per_cpu) * cpus, source.within(f"{per_cpu} per CPU ({{}}) x {cpus}")


def _memory_share(node: Node) -> str | None:
    total = sizes.megabytes(node.memory) if node.memory else None
    gibibytes = share_of_gpu(total, node.gpus, 1024)
    return sizes.canonical(gibibytes) if gibibytes else None


def _size(text: str) -> int:
    form = "Write a whole number with M, G or T, such as 64G."
    try:
        total = sizes.megabytes(text)
    except ValueError:
        raise RequestError(f"{option('mem')} {text!r} is not a size", form) from None
    if total > sizes.megabytes(MOST_MEMORY):
        raise RequestError(f"{option('mem', text)} is more than any node has: {MOST_MEMORY}", form)
    return total
