"""The page of `slurmgen top ID`: a line for each GPU, and below it what stands out."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmgen.slurm import durations, sizes
from slurmgen.text import counted, visible

if TYPE_CHECKING:
    from rich.console import Console

    from slurmgen.jobs.live.gpus import Gpu
    from slurmgen.jobs.live.sample import Sample

BAR = 20
"Characters of a full bar."


def print_sample(sample: "Sample", screen: "Console") -> None:
    """Print a sample of a job."""
    _line(screen, _head(sample))
    _line(screen, _used(sample))
    width = max((len(gpu.node) for gpu in sample.gpus), default=0)
    for gpu in sample.gpus:
        _line(screen, f"  {gpu.node:<{width}} {_gpu(gpu)}")
    for text in sample.verdict:
        _line(screen, text, "bold")
    if sample.stand_in:
        _line(screen, "the GPUs are invented: a twin has none, and a stand-in for nvidia-smi reports them")
    if sample.problem:
        _line(screen, f"the GPUs are not known: {sample.problem}", "red")


def _line(screen: "Console", text: str, style: str = "") -> None:
    from rich.text import Text

    if screen.is_terminal:
        screen.print(Text(visible(text)), style=style, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        screen.print(Text(visible(text)), soft_wrap=True)


def _head(sample: "Sample") -> str:
    name = f" ({sample.name})" if sample.name else ""
    elapsed = durations.canonical(sample.elapsed) if sample.elapsed is not None else "-"
    limit = f"/{durations.canonical(sample.time_limit)}" if sample.time_limit else ""
    return f"job {sample.id}{name} at {sample.site} is {sample.state} for {elapsed}{limit} on {sample.nodes}"


def _used(sample: "Sample") -> str:
    cpus = counted(sample.cpus, "CPU")
    share = f"{sample.cpu_percent} % of {cpus} since its start" if sample.cpu_percent is not None else cpus
    memory = f", memory {sizes.canonical(sample.memory_used)}" if sample.memory_used is not None else ""
    return share + (memory or ", memory not sampled by Slurm")


def _gpu(gpu: "Gpu") -> str:
    share = gpu.utilization
    bar = "#" * round(BAR * min(share or 0, 100) / 100)
    busy = f"{share:>3} %" if share is not None else "  ? %"
    memory = _of(gpu.memory_used, gpu.memory, sizes.canonical)
    power = _of(gpu.power, gpu.power_limit, lambda watts: f"{watts} W")
    return f"GPU {gpu.index:<2} {busy} [{bar:<{BAR}}] {memory:>14}  {power:>13}  {gpu.name}"


def _of(used: int | None, most: int | None, form: Callable[[int], str]) -> str:
    """A value and its limit, such as `12G/80G`."""
    parts = [form(value) for value in (used, most) if value is not None]
    return "/".join(parts) or "?"
