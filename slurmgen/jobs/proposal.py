"""What a job that ran out of memory or time should ask for next. Pure."""

from math import ceil

from msgspec import Struct

from slurmgen.jobs.failure import Why
from slurmgen.jobs.failure_patterns import MORE_MEMORY, RUN_AGAIN, STOP_EARLIER
from slurmgen.plan import Plan
from slurmgen.request import Request
from slurmgen.slurm import durations, sizes
from slurmgen.slurm.replies import JobState
from slurmgen.slurm.usage import whole_seconds

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
        return f"--mem {self.request.mem}" if self.request.mem else f"--time {self.request.time}"


def proposal(state: JobState, why: Why | None, plan: Plan) -> Proposal | None:
    """The proposal after a job ended for lack of memory or time; None if it ended for another reason.

    Args:
        state: how it ended.
        why: the reason of its failure.
        plan: of the next job, without the proposal.
    """
    todo = why.todo if why else ""
    if state.state == "TIMEOUT" or (state.ended and todo in (RUN_AGAIN, STOP_EARLIER)):
        return _longer(state, plan)
    if state.state == "OUT_OF_MEMORY" or (state.ended and todo == MORE_MEMORY):
        return _larger(state, plan)
    return None


def _larger(state: JobState, plan: Plan) -> Proposal:
    usage, nodes = state.usage, plan.nodes
    asked = _per_node(usage.memory if usage else None, nodes) or _of(plan.mem)
    peak = _per_node(usage.memory_used if usage else None, nodes)
    most = _of(plan.place.node.memory)
    if not asked:
        return Proposal(None, f"jobs on {plan.site} request no memory: use more GPUs or CPUs, or more nodes")
    had = f"it ran out of memory with {sizes.canonical(asked)} per node"
    measured = f", and Slurm measured {sizes.canonical(peak)}" if peak else ""
    if most and asked >= most:
        return Proposal(None, f"{had}, all that a node has: use more nodes, or another partition or GPU type")
    wanted = _rounded(max(ceil((peak or 0) * ABOVE_PEAK), ceil(asked * ABOVE_REQUEST)))
    enough = min(wanted, most) if most else wanted
    return Proposal(Request(mem=sizes.canonical(enough)), had + measured)


def _longer(state: JobState, plan: Plan) -> Proposal:
    had = whole_seconds(state.time_limit) or plan.time_seconds
    limits = [limit.seconds_for(plan.nodes) for limit in plan.place.limits.values()]
    most = min((limit for limit in limits if limit is not None), default=None)
    fact = f"it reached its time limit of {durations.canonical(had)}"
    if most is not None and had >= most:
        return Proposal(
            None, f"{fact}, the longest of its partition: use --requeue (docs/requeue.md), or another one"
        )
    enough = min(had * LONGER, most) if most is not None else had * LONGER
    return Proposal(Request(time=durations.canonical(enough)), fact)


def _of(size: str | None) -> int | None:
    return sizes.megabytes(size) if size else None


def _per_node(total: int | None, nodes: int) -> int | None:
    return -(-total // nodes) if total else None


def _rounded(mebibytes: int) -> int:
    """The next whole GiB, or below that the next 256 MiB."""
    step = 1024 if mebibytes >= 1024 else 256
    return -(-mebibytes // step) * step
