"""Nodes, and how jobs request their GPUs, CPUs and memory."""

from collections.abc import Iterator

from slurmgen.sites.describe.model import Row, Section, code, pairs
from slurmgen.sites.model import GpuType, Node, Site
from slurmgen.slurm.sbatch_options import SbatchOptions

_GPU_REQUESTS = {
    "gres": "`--gres=gpu:N` for each node",
    "gpus-per-node": "`--gpus-per-node=N`",
    "gpus": "`--gpus=N` for the job",
    "none": "by the partition; the site refuses a request",
}
_MEMORY_FORMS = {
    "mem": "`--mem`",
    "mem-per-gpu": "`--mem-per-gpu`",
    "mem-per-cpu": "`--mem-per-cpu`",
    "optional": "not needed",
    "none": "the site refuses a request",
}


def hardware(site: Site) -> Iterator[Section]:
    """What the nodes have, and what jobs must request of it."""
    yield Section("Nodes", ("node", "GPUs", "CPUs", "memory"), tuple(_nodes(site)))
    yield pairs("Requests", _requests(site) if site.node != Node() or site.partitions else ())


def _nodes(site: Site) -> Iterator[Row]:
    kinds: dict[str, tuple[str, Node]] = {
        "node": ("usual", site.node),
        "cpu_node": ("of jobs without GPUs", site.cpu_node),
    }
    for name, kind in site.gpu.types.items():
        label = f": {kind.label}" if kind.label else ""
        kinds[f"gpu.types.{name}"] = (f"GPU type `{name}`{label}", kind)
    for name, part in site.partitions.items():
        kinds[f"partitions.{name}.node"] = (f"partition `{name}`", part.node or Node())
    for key, (title, node) in kinds.items():
        if node != type(node)():
            yield Row(key, (title, _text(node.gpus), _cpus(node), _memory(node)))


def _cpus(node: Node) -> str:
    share = f"{node.cpus_per_gpu} for each GPU" if node.cpus_per_gpu else ""
    return ", ".join(filter(None, [_text(node.cpus), share]))


def _memory(node: Node) -> str:
    share = f"{node.memory_per_gpu} for each GPU" if node.memory_per_gpu else ""
    return ", ".join(filter(None, [node.memory, share]))


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _requests(site: Site) -> Iterator[tuple[str, str, str | int | None]]:
    gpu, cpu = site.gpu, site.cpu
    yield "gpu.request", "GPUs", _GPU_REQUESTS[gpu.request]
    yield "gpu.type_required", "GPU type", "required" if gpu.type_required else None
    yield "gpu.default_type", "GPU type of a job that names none", gpu.default_type
    for name, kind in gpu.types.items():
        yield f"gpu.types.{name}", f"selects `{name}`", _selection(kind)
    exactly = "exactly " if cpu.exact else ""
    yield "cpu.per_gpu", "CPUs for each GPU", f"{exactly}{cpu.per_gpu}" if cpu.per_gpu else None
    yield (
        "cpu.multiple_of",
        "CPUs of a task",
        f"a multiple of {cpu.multiple_of}" if cpu.multiple_of > 1 else None,
    )
    yield "memory.form", "memory", _MEMORY_FORMS[site.memory.form]
    yield "memory.per_gpu", "memory for each GPU", site.memory.per_gpu
    yield "time", "time of a job that requests none", site.time
    yield "sbatch", "further directives", _options(site.sbatch)
    yield "max_array_size", "largest job array (MaxArraySize)", site.max_array_size


def _selection(kind: GpuType) -> str:
    constraint: SbatchOptions = {"constraint": kind.constraint} if kind.constraint else {}
    return _options(constraint | kind.sbatch)


def _options(options: SbatchOptions) -> str:
    return code(*(f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()))
