"""Propose a change to a job that failed: more time, memory or other nodes."""

from math import ceil
from typing import Literal

from msgspec import Struct

from slurmgen.lint.reader.shape import header_shape
from slurmgen.plan import Plan
from slurmgen.request.model import Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place, place_of
from slurmgen.slurm import units
from slurmgen.slurm.replies import JobState, Usage, whole_seconds
from slurmgen.slurm.units import megabytes
from slurmgen.status.failure import Why
from slurmgen.status.failure_patterns import MORE_MEMORY, RUN_AGAIN, STOP_EARLIER
from slurmgen.submit.script import BatchScript

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


ABOVE_PEAK = 1.25
"Times the measured peak, which Slurm samples only every few seconds."
ABOVE_REQUEST = 1.5
"Times what was not enough."
LONGER = 2
"Times the time limit that was reached."


class Proposal(Struct, frozen=True):
    """A request that should suffice where the last one did not; without a request, why there is none."""

    request: Request | None
    why: str

    @property
    def words(self) -> str:
        """The option, such as `--mem 96G`; empty if there is none."""
        if self.request is None:
            return ""
        if self.request.time:
            return f"--time {self.request.time}"
        return " ".join(
            [f"--mem {self.request.mem}"] * bool(self.request.mem)
            + [f"--sbatch {name}={value}" for name, value in self.request.sbatch.items()]
        )


def lacked(state: JobState, why: Why | None) -> Literal["time", "memory"] | None:
    """What a job ended for lack of, by its state and the reason of its failure."""
    todo = why.todo if why else ""
    if state.state == "TIMEOUT" or (state.ended and todo in (RUN_AGAIN, STOP_EARLIER)):
        return "time"
    if state.state == "OUT_OF_MEMORY" or (state.ended and todo == MORE_MEMORY):
        return "memory"
    return None


def proposal(state: JobState, why: Why | None, room: Room) -> Proposal | None:
    """The proposal after a job ended for lack of memory or time; None if it ended for another reason.

    Args:
        room: of the next job, without the proposal.
    """
    lack = lacked(state, why)
    if lack is None:
        return None
    return _longer(state, room) if lack == "time" else _larger(state, room)


def _larger(state: JobState, room: Room) -> Proposal:
    usage, most = state.usage or Usage(), room.most_memory
    asked = _each(usage.memory, room.nodes) or room.memory
    peak = _each(usage.memory_used, room.nodes)
    if not asked:
        return Proposal(None, f"jobs on {room.site} request no memory: use more GPUs or CPUs, or more nodes")
    had = f"it ran out of memory with {units.canonical_size(asked)} per node"
    measured = f", and Slurm measured {units.canonical_size(peak)}" if peak else ""
    if most and asked >= most:
        return Proposal(None, f"{had}, all that a node has: use more nodes, or another partition or GPU type")
    wanted = _rounded(max(ceil((peak or 0) * ABOVE_PEAK), ceil(asked * ABOVE_REQUEST)))
    return _of_memory(min(wanted, most) if most else wanted, usage, room, had + measured)


def _of_memory(enough: int, usage: Usage, room: Room, why: str) -> Proposal:
    """The proposal of that memory per node, by the option that the job has."""
    name = room.memory_option
    if name == PER_NODE:
        return Proposal(Request(mem=units.canonical_size(enough)), why)
    each = _each(enough * room.nodes, usage.cpus if name == PER_CPU else usage.gpus)
    if each is None:
        return Proposal(None, f"{why}: raise --{name}")
    return Proposal(Request(sbatch={name: units.canonical_size(each)}), why)


def _longer(state: JobState, room: Room) -> Proposal:
    had, most = whole_seconds(state.time_limit) or room.seconds, room.most_seconds
    if had is None:
        return Proposal(None, "it reached a time limit, which is not known: give --time")
    fact = f"it reached its time limit of {units.canonical_time(had)}"
    if most is not None and had >= most:
        return Proposal(
            None, f"{fact}, the longest of its partition: use --requeue (docs/requeue.md), or another one"
        )
    enough = min(had * LONGER, most) if most is not None else had * LONGER
    return Proposal(Request(time=units.canonical_time(enough)), fact)


def _each(total: int | None, count: int) -> int | None:
    return -(-total // count) if total and count else None


def _rounded(mebibytes: int) -> int:
    step = 1024 if mebibytes >= 1024 else 256
    return -(-mebibytes // step) * step
