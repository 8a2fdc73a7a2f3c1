"""Room: what a job asked for, and the most that it could ask for at its site. Pure."""

from msgspec import Struct

from slurmgen.jobs.batch_script import BatchScript
from slurmgen.lint.reader.shape import header_shape
from slurmgen.plan import Plan
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place, place_of
from slurmgen.slurm.sizes import megabytes
from slurmgen.slurm.usage import whole_seconds

PER_NODE = "mem"
PER_CPU = "mem-per-cpu"
PER_GPU = "mem-per-gpu"


class Room(Struct, frozen=True, kw_only=True):
    """What a job asked for, and the most that it could ask for; None for what is not known."""

    site: str
    nodes: int = 1
    memory: int | None = None
    "MiB per node."
    most_memory: int | None = None
    "MiB of a node."
    memory_option: str = PER_NODE
    "The option of sbatch that asks for memory."
    seconds: int | None = None
    "The time limit."
    most_seconds: int | None = None
    "The longest time limit that its partition and QoS allow."


def room_of_plan(plan: Plan) -> Room:
    """The room of a job that slurmgen made."""
    return Room(
        site=plan.site,
        nodes=plan.nodes,
        memory=_size(plan.mem),
        most_memory=_size(plan.place.node.memory),
        seconds=plan.time_seconds,
        most_seconds=_longest(plan.place, plan.nodes),
    )


def room_of_script(script: BatchScript, site: Site) -> Room:
    """The room of a batch script, as far as its header says what it asks for."""
    header, shape = script.script.header, header_shape(script.script.header)
    nodes = shape.nodes or 1
    place = place_of(
        site, header.value("partition"), shape.gpu_type, header.value("qos"), with_gpus=shape.has_gpus
    )
    return Room(
        site=site.name,
        nodes=nodes,
        memory=_size(header.value(PER_NODE)),
        most_memory=_size(place.node.memory),
        memory_option=next((name for name in (PER_CPU, PER_GPU) if header.last(name)), PER_NODE),
        seconds=whole_seconds(header.value("time") or ""),
        most_seconds=_longest(place, nodes),
    )


def _longest(place: Place, nodes: int) -> int | None:
    limits = [limit.seconds_for(nodes) for limit in place.limits.values()]
    return min((limit for limit in limits if limit is not None), default=None)


def _size(text: str | None) -> int | None:
    """MiB of a size; None if there is none. Slurm reads 0 as all memory of a node."""
    try:
        return megabytes(text or "") or None
    except ValueError:
        return None
