"""The hardware of a cluster: nodes, GPUs, CPUs and memory, and how jobs request them."""

from typing import Literal

from slurmgen.sites.facts import Count, Fact, Name
from slurmgen.slurm.sbatch_options import SbatchOptions

GpuRequest = Literal["gres", "gpus-per-node", "gpus", "none"]
Vendor = Literal["nvidia", "amd"]
MemoryForm = Literal["mem", "mem-per-gpu", "mem-per-cpu", "optional", "none"]


class Node(Fact, frozen=True):
    """A node, as Slurm counts it."""

    gpus: Count | None = None
    "GPUs of the node."
    cpus: Count | None = None
    "CPUs that jobs can allocate, as Slurm counts them (cores, or threads)."
    memory: str | None = None
    "The memory that jobs can allocate, such as 808G."
    cpus_per_gpu: Count | None = None
    "CPUs for each GPU, where they differ from `[cpu] per_gpu`."
    memory_per_gpu: str | None = None
    "Memory for each GPU, where it differs from `[memory] per_gpu`."


class GpuType(Node, frozen=True):
    """A GPU type by its Slurm name, and how its nodes differ from the usual one (see sites/nodes.py)."""

    label: str | None = None
    "The name of the GPU for readers."
    constraint: str | None = None
    "The --constraint that selects the type, on sites whose GPU requests name no type."
    sbatch: SbatchOptions = {}
    "Other directives that select the type in the same way, such as a reservation."
    vendor: Vendor | None = None
    "The vendor, where it differs from `[gpu] vendor`."


class Gpu(Fact, frozen=True):
    """How jobs request GPUs."""

    request: GpuRequest = "gres"
    "How jobs request GPUs; `none` where the site refuses a request, since partitions bring the GPUs."
    type_required: bool = False
    "Whether a job must name a type; the only type is then used unnamed."
    default_type: Name | None = None
    "The type of a job that names none."
    types: dict[Name, GpuType] = {}
    "The GPU types by their Slurm names, and how their nodes differ from `[node]`."
    vendor: Vendor = "nvidia"
    "Selects the GPU option of the container engine."

    def vendor_of(self, gpu_type: str | None) -> Vendor:
        """The vendor of a GPU type."""
        kind = self.types.get(gpu_type or "")
        return (kind.vendor if kind else None) or self.vendor


class Cpu(Fact, frozen=True):
    """CPUs that belong to a GPU."""

    per_gpu: Count | None = None
    "CPUs for each GPU; default: the share of a node."
    exact: bool = False
    "Whether a job must request exactly `per_gpu` CPUs for each GPU."
    multiple_of: Count = 1
    "Slurm allocates CPUs of a task in multiples of this."


class Memory(Fact, frozen=True):
    """How jobs request memory, and how much for each GPU."""

    form: MemoryForm = "mem"
    "The option for memory; `optional` if jobs need none, `none` if the site refuses it."
    per_gpu: str | None = None
    "Memory for each GPU, such as 110G; default: the share of a node."
