"""What the GPUs of a job do, in words; idle ones are remembered between samples. Pure."""

from collections.abc import Mapping, Sequence

from slurmgen.jobs.live.gpus import Gpu
from slurmgen.text import counted, listed

IDLE = 5
"Percent of utilisation below which a GPU is idle."
LONG = 60
"Seconds after which an idle GPU is worth a line: between two batches it may be idle for a moment."
Since = Mapping[tuple[str, int], float]
"Since when each idle GPU is idle, in seconds, by node and index."


def idle_since(before: Since, gpus: Sequence[Gpu], now: float) -> dict[tuple[str, int], float]:
    """Since when each GPU that is idle now is idle, as far as it was watched."""
    return {
        (gpu.node, gpu.index): before.get((gpu.node, gpu.index), now)
        for gpu in gpus
        if gpu.utilization is not None and gpu.utilization < IDLE
    }


def verdict(gpus: Sequence[Gpu], since: Since, now: float) -> list[str]:
    """What stands out, in sentences.

    >>> verdict([Gpu(node="n1", index=0, utilization=97), Gpu(node="n1", index=3, utilization=0)],
    ...         {("n1", 3): 0.0}, 600.0)
    ['GPU 3 on n1 idle for 10 min']
    """
    measured = [gpu for gpu in gpus if gpu.utilization is not None]
    if not measured:
        return []
    idle = [gpu for gpu in measured if (gpu.node, gpu.index) in since]
    if not idle:
        return [f"no idle GPU: on average {_average(measured)} % of {counted(len(measured), 'GPU')}"]
    if len(idle) == len(measured) > 1:
        shortest = min(now - since[gpu.node, gpu.index] for gpu in idle)
        return [f"all {len(idle)} GPUs idle {_time(shortest)}{_why(shortest)}"]
    lines = [f"GPU {gpu.index} on {gpu.node} idle {_time(now - since[gpu.node, gpu.index])}" for gpu in idle]
    return lines if len(lines) <= _MOST else [f"{len(idle)} of {len(measured)} GPUs idle: {listed(lines)}"]


_MOST = 4


def _why(seconds: float) -> str:
    return ": the job may hang, or wait for data" if seconds >= LONG else ""


def _time(seconds: float) -> str:
    return "now" if seconds < LONG else f"for {seconds / 60:.0f} min"


def _average(gpus: Sequence[Gpu]) -> int:
    return round(sum(gpu.utilization or 0 for gpu in gpus) / len(gpus))
