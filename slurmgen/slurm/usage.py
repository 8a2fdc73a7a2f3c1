"""What a job was allocated and what it used, from the accounting database."""

import re
from math import ceil

from msgspec import Struct

from slurmgen.slurm import durations

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)", re.ASCII)
_LONGEST_TIME = 32
_MEBIBYTES = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


class Usage(Struct, frozen=True, kw_only=True):
    """What a job was allocated, and what it used."""

    nodes: int = 0
    cpus: int = 0
    "CPUs that were allocated."
    gpus: int = 0
    "0 if the site does not account for GPUs."
    memory: int | None = None
    "MiB on all its nodes."
    memory_used: int | None = None
    "MiB of all tasks of the largest step, each at its maximum; None if Slurm took no sample."
    cpu_seconds: int | None = None
    "Seconds of CPU time of all tasks."
    gpu_percent: int | None = None
    "Of all its GPUs, as Slurm sampled them; None if the site does not have it sampled."


def usage(allocated: str, cpu_time: str, used: str = "") -> Usage:
    """Parse sacct's AllocTRES, TotalCPU and TRESUsageInTot.

    >>> usage("billing=2,cpu=2,gres/gpu=1,mem=2G,node=1", "00:03.016", "mem=222132K,gres/gpuutil=57")
    Usage(nodes=1, cpus=2, gpus=1, memory=2048, memory_used=217, cpu_seconds=3, gpu_percent=57)
    """
    tres, measured = pairs(allocated), pairs(used)
    gpus = _count(tres.get("gres/gpu", ""))
    return Usage(
        nodes=_count(tres.get("node", "")),
        cpus=_count(tres.get("cpu", "")),
        gpus=gpus,
        memory=mebibytes(tres.get("mem", "")),
        memory_used=mebibytes(measured.get("mem", "")),
        cpu_seconds=whole_seconds(cpu_time),
        gpu_percent=_percent(measured.get("gres/gpuutil", ""), gpus),
    )


def whole_seconds(text: str) -> int | None:
    """Seconds of a time as Slurm prints it, without fractions; None if it is not a time, as UNLIMITED."""
    if len(text) > _LONGEST_TIME:
        return None
    try:
        return durations.seconds(text.partition(".")[0])
    except ValueError:
        return None


def in_one_form(text: str) -> str:
    """A time as slurmgen writes it; squeue and sacct differ.

    >>> in_one_form("1:05"), in_one_form("UNLIMITED")
    ('00:01:05', 'UNLIMITED')
    """
    seconds = whole_seconds(text)
    return text if seconds is None else durations.canonical(seconds)


def mebibytes(text: str) -> int | None:
    """MiB of a size as Slurm prints it, such as 1655.50K, rounded up; None if it is not a size."""
    match = _SIZE.fullmatch(text)
    return ceil(float(match[1]) * _MEBIBYTES[match[2]]) if match else None


def pairs(text: str) -> dict[str, str]:
    """The trackable resources of a text such as `cpu=2,mem=2G`, by name."""
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _percent(total: str, gpus: int) -> int | None:
    """The share of the GPUs, from the sum over tasks and GPUs."""
    known = gpus and re.fullmatch("[0-9]{1,9}", total)
    return min(100, round(int(total) / gpus)) if known else None


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0
