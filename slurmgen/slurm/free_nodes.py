"""What sinfo reports of the nodes of partitions: free GPUs and CPUs. Pure."""

import re
from collections.abc import Iterator

from msgspec import Struct

_WIDTHS = {"Partition": 128, "StateCompact": 24, "Gres": 512, "GresUsed": 512, "CPUsState": 48}
FORMAT = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())
"The value of sinfo's --Format: columns of fixed width, since its values have no separator."
_USABLE = ("idle", "mix", "alloc", "comp")
"Short states of nodes that take jobs; with a mark such as * or $ they do not."
_GPU = re.compile(r"(?:^|,)gpu(?::([A-Za-z_][\w.-]{0,63}))?:([0-9]{1,9})\b")
_CPUS = re.compile(r"[0-9]{1,9}/([0-9]{1,9})/[0-9]{1,9}/[0-9]{1,9}")


class Free(Struct, frozen=True):
    """What is free on the nodes of a partition now, as Slurm counts it."""

    gpus: int = 0
    gpus_of_type: dict[str, int] = {}
    "GPUs with a type, by its name in Slurm."
    cpus: int = 0

    def of_type(self, gpu_type: str | None) -> int:
        """The free GPUs of a type, or of all if Slurm does not name it."""
        return self.gpus_of_type.get(gpu_type or "", self.gpus)


def free(text: str) -> dict[str, Free]:
    """What is free in each partition, from the reply to sinfo with FORMAT."""
    found: dict[str, Free] = {}
    for row in map(_columns, text.splitlines()):
        name = row["Partition"].rstrip("*")
        if name and _takes_jobs(row["StateCompact"]):
            found[name] = _sum(found.get(name, Free()), _of_node(row))
        elif name:
            found.setdefault(name, Free())
    return found


def _columns(line: str) -> dict[str, str]:
    cells, start = {}, 0
    for name, width in _WIDTHS.items():
        cells[name], start = line[start : start + width].strip(), start + width
    return cells


def _takes_jobs(state: str) -> bool:
    return state.rstrip("+").lower() in _USABLE


def _of_node(row: dict[str, str]) -> Free:
    """What is free on one node."""
    all_, used = dict(_gpus(row["Gres"])), dict(_gpus(row["GresUsed"]))
    left = {kind: max(0, count - used.get(kind, 0)) for kind, count in all_.items()}
    cpus = _CPUS.fullmatch(row["CPUsState"])
    named = {kind: count for kind, count in left.items() if kind}
    return Free(sum(left.values()), named, int(cpus[1]) if cpus else 0)


def _gpus(text: str) -> Iterator[tuple[str, int]]:
    """The type and the number of GPUs in a list such as `gpu:a100:4(S:0-1),nvme:1`."""
    counts: dict[str, int] = {}
    for match in _GPU.finditer(text):
        kind = match[1] or ""
        counts[kind] = counts.get(kind, 0) + int(match[2])
    yield from counts.items()


def _sum(one: Free, other: Free) -> Free:
    kinds = {*one.gpus_of_type, *other.gpus_of_type}
    of_type = {kind: one.gpus_of_type.get(kind, 0) + other.gpus_of_type.get(kind, 0) for kind in kinds}
    return Free(one.gpus + other.gpus, of_type, one.cpus + other.cpus)
