"""The time limit of a job: from the request, else the site, else a default; with the reason."""

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import ask_for
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.reasons import PROFILE, Reason, Reasoned, default, first, from_profile
from slurmgen.request import Request
from slurmgen.sites.model import Limits
from slurmgen.slurm import durations

DEFAULT_TIME = "01:00:00"
MOST_DAYS = 366
"A longer time limit is taken for a typing error."


def time(inputs: Inputs, limits: dict[str, Limits], nodes: int) -> Reasoned:
    """The time limit of a job on `nodes` nodes; `limits` are those of the job, by what sets them.

    Raises:
        RequestError: it is not a valid time, or exceeds a limit.
    """
    request, site, origin = inputs
    text, why = first(
        (request.time, origin("time")),
        (site.time if durations.limit(site.time) else None, from_profile(site, "time")),
        (DEFAULT_TIME, default("slurmgen's default, because neither the request nor the profile sets one")),
    )
    total = _duration(text)
    for name, limit in limits.items():
        if (most := limit.seconds_for(nodes)) is not None and total > most:
            longest, exact = limit.time_for(nodes), durations.canonical(total)
            written = text if text == exact else f"{text} is {exact}"
            if request.time:
                raise RequestError(
                    f"{option('time', written)}, but {name} allows {longest}",
                    ask_for("time", longest, bound="at most"),
                )
            total, why = most, Reason(PROFILE, f"the limit of {name}")
    total, why = _at_least(request, limits, total, why)
    return Reasoned(durations.canonical(total), why)


def _at_least(request: Request, limits: dict[str, Limits], total: int, why: Reason) -> tuple[int, Reason]:
    """The time limit, raised to the shortest that the site allows.

    Raises:
        RequestError: the request names a shorter one.
    """
    for name, limit in limits.items():
        least = durations.limit(limit.min_time)
        if least is not None and total < least:
            if request.time:
                raise RequestError(
                    f"{option('time', request.time)} is shorter than {name} allows: {limit.min_time}",
                    ask_for("time", limit.min_time, bound="at least"),
                )
            total, why = least, Reason(PROFILE, f"the shortest time limit of {name}")
    return total, why


def _duration(text: str) -> int:
    form = "Write HH:MM:SS or D-HH:MM:SS, such as 04:00:00."
    try:
        total = durations.seconds(text)
    except ValueError:
        raise RequestError(f"{option('time')} {text!r} is not a Slurm time", form) from None
    if not total:
        raise RequestError(f"{option('time', text)} is zero", form)
    if total > MOST_DAYS * 86_400:
        raise RequestError(f"{option('time', text)} is longer than a year", form)
    return total
