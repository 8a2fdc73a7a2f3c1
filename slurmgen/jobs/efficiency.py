"""The request that would have sufficed for a job that COMPLETED. Pure."""

from math import ceil

from msgspec import Struct

from slurmgen.slurm import durations, sizes
from slurmgen.slurm.usage import Usage

MARGIN = 1.25
"How much more than the job used the next request asks for: runs differ, and Slurm samples memory."
_STEPS = ((3600, 300), (12 * 3600, 1800), (1 << 62, 3600))
"Seconds up to which a time limit is rounded up to a multiple of the second number."


class Enough(Struct, frozen=True, kw_only=True):
    """The options of a smaller request; None where the request was not too large, or too little is known."""

    mem: str | None = None
    "Memory of one node, for --mem."
    time: str | None = None
    "Time limit, for --time."

    def __str__(self) -> str:
        options = {"--mem": self.mem, "--time": self.time}
        return " ".join(f"{name} {value}" for name, value in options.items() if value)


def enough(usage: Usage | None, elapsed: int | None, time_limit: int | None) -> Enough | None:
    """The smaller request that would have sufficed; None if there is none, or if too little is known.

    Args:
        usage: what the job used, from the accounting database.
        elapsed: seconds that it has run.
        time_limit: seconds that it was allowed.

    >>> str(enough(Usage(nodes=2, memory=131072, memory_used=16000), 5400, 14400))
    '--mem 10G --time 02:00:00'
    """
    found = Enough(mem=_memory(usage) if usage else None, time=_time(elapsed or 0, time_limit or 0))
    return found if found.mem or found.time else None


def _memory(usage: Usage) -> str | None:
    """The memory of a node in whole gigabytes."""
    if not (usage.memory and usage.memory_used and usage.nodes):
        return None
    needed = _rounded_up(usage.memory_used * MARGIN / usage.nodes, 1024)
    return sizes.canonical(needed) if needed < usage.memory // usage.nodes else None


def _time(elapsed: int, time_limit: int) -> str | None:
    needed = elapsed * MARGIN
    needed = _rounded_up(needed, next(step for most, step in _STEPS if needed <= most))
    return durations.canonical(needed) if elapsed and needed < time_limit else None


def _rounded_up(number: float, step: int) -> int:
    return ceil(number / step) * step
