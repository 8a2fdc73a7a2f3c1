"""What sbatch needs to know of a job besides its nodes and tasks."""

from msgspec import Struct

from slurmgen.plan.bad_nodes import with_bad_nodes
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.mail import with_mail
from slurmgen.plan.memory import memory
from slurmgen.plan.reasons import Reasoned
from slurmgen.plan.requeue import Notice, find_notice, further_options
from slurmgen.plan.steps import Steps
from slurmgen.plan.sweep import Sweeping, find_sweep, with_array
from slurmgen.plan.time_limit import time


class BatchOptions(Struct, frozen=True, kw_only=True):
    """The memory and the time limit of a job, and its options beyond those of every plan."""

    memory: Reasoned
    time_limit: Reasoned
    notice: Notice | None
    sweep: Sweeping | None
    further: dict[str, str]


def find_batch_options(inputs: Inputs, steps: Steps) -> BatchOptions:
    """The options of a request.

    Raises:
        RequestError: the site does not allow one, or two contradict each other.
    """
    request, place, ranks = inputs.request, steps.place, steps.first
    mem = memory(inputs, ranks.layout, place.node, ranks.cpus.per_node)
    limit = time(inputs, place.limits, ranks.layout.nodes)
    notice = find_notice(request, ranks.launcher, limit.value)
    sweep = find_sweep(request, inputs.site, ranks.layout)
    further = further_options(request, ranks.settings.sbatch, place.constraint, notice)
    further = with_array(sweep, with_mail(request, with_bad_nodes(request, further)))
    return BatchOptions(memory=mem, time_limit=limit, notice=notice, sweep=sweep, further=further)
