"""The GPUs of a job: a program that asks nvidia-smi or rocm-smi on each node, and its parser. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import DecodeError, Struct, json

from slurmgen.text import visible

MOST_LINES, LONGEST = 20_000, 20_000
"Lines that are read, and characters of one; rocm-smi prints one line for all GPUs of a node."
STAND_IN = "twin-nvidia-smi"
"A twin's stand-in for nvidia-smi. It has a name of its own, so that jobs do not take it for a GPU's program."
# Without a container of its own, nvidia-smi lists all GPUs of the node; SLURM_STEP_GPUS names the job's.
PROBE = f"""
node=${{SLURMD_NODENAME:-$(uname -n)}}
query=index,name,utilization.gpu,memory.used,memory.total,power.draw,power.limit
printf 'gpus|%s|%s\\n' "$node" "$SLURM_STEP_GPUS"
ask() {{ "$1" --query-gpu="$query" --format=csv,noheader,nounits | while IFS= read -r line; do
  printf '%s|%s|%s\\n' "$2" "$node" "$line"; done; }}
if command -v nvidia-smi >/dev/null 2>&1; then ask nvidia-smi nvidia
elif command -v rocm-smi >/dev/null 2>&1; then
  printf 'rocm|%s|' "$node"
  rocm-smi --showproductname --showuse --showmeminfo vram --showpower --json | tr -d '\\n'; echo
elif command -v {STAND_IN} >/dev/null 2>&1; then ask {STAND_IN} stand-in
else printf 'none|%s|\\n' "$node"
fi
"""


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU at one moment; None where its driver reports no value."""

    node: str
    index: int
    "As nvidia-smi or rocm-smi numbers it."
    name: str = ""
    utilization: int | None = None
    "Percent of the time in which a program ran on it, at the sample."
    memory_used: int | None = None
    "MiB."
    memory: int | None = None
    "MiB."
    power: int | None = None
    "Watts."
    power_limit: int | None = None
    "Watts."


class Gpus(Struct, frozen=True, kw_only=True):
    """The GPUs of a job, by node and index."""

    gpus: tuple[Gpu, ...] = ()
    stand_in: bool = False
    "Whether a twin's stand-in reported them, which has no GPU."
    without: tuple[str, ...] = ()
    "The nodes that have neither nvidia-smi nor rocm-smi."


def parse(text: str) -> Gpus:
    """The GPUs in the output of `PROBE`, which the programs of a job may have influenced."""
    found: list[Gpu] = []
    own: dict[str, list[int]] = {}
    without, stand_in = [], False
    for line in text.splitlines()[:MOST_LINES]:
        kind, node, rest = (*line[:LONGEST].split("|", 2), "", "")[:3]
        node = visible(node)[:64]
        if kind == "gpus":
            own[node] = [int(number) for number in re.findall("[0-9]{1,4}", rest)]
        elif kind in ("nvidia", "stand-in"):
            stand_in |= kind == "stand-in"
            found += _nvidia(node, rest)
        elif kind == "rocm":
            found += _rocm(node, rest)
        elif kind == "none":
            without.append(node)
    gpus = sorted(_of_job(found, own), key=lambda gpu: (gpu.node, gpu.index))
    return Gpus(gpus=tuple(gpus), stand_in=stand_in, without=tuple(without))


def _of_job(found: list[Gpu], own: Mapping[str, list[int]]) -> Iterator[Gpu]:
    """The GPUs that Slurm allocated, where a program listed all those of the node."""
    for gpu in found:
        listed = {other.index for other in found if other.node == gpu.node}
        mine = set(own.get(gpu.node, ()))
        if not mine or not mine < listed or gpu.index in mine:
            yield gpu


def _nvidia(node: str, row: str) -> list[Gpu]:
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) != 7 or not re.fullmatch("[0-9]{1,4}", cells[0]):
        return []
    return [
        Gpu(
            node=node,
            index=int(cells[0]),
            name=visible(cells[1])[:64],
            utilization=_number(cells[2]),
            memory_used=_number(cells[3]),
            memory=_number(cells[4]),
            power=_number(cells[5]),
            power_limit=_number(cells[6]),
        )
    ]


# The names of a value in several versions of rocm-smi.
_ROCM = {
    "utilization": ("GPU use (%)",),
    "memory_used": ("VRAM Total Used Memory (B)",),
    "memory": ("VRAM Total Memory (B)",),
    "power": ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"),
    "power_limit": ("Max Graphics Package Power (W)",),
}


def _rocm(node: str, text: str) -> list[Gpu]:
    try:
        cards = json.decode(text, type=dict[str, dict[str, Any]])
    except DecodeError:
        return []
    numbers = {card: match[1] for card in cards if (match := re.fullmatch("card([0-9]{1,4})", card))}
    return [_card(node, int(number), cards[card]) for card, number in numbers.items()]


def _card(node: str, index: int, values: Mapping[str, Any]) -> Gpu:
    read = {
        field: next((_number(str(values[name])) for name in names if name in values), None)
        for field, names in _ROCM.items()
    }
    for field in ("memory_used", "memory"):
        size = read[field]
        read[field] = None if size is None else size >> 20
    name = str(values.get("Card series") or values.get("Card Series") or "")
    return Gpu(node=node, index=index, name=visible(name)[:64], **read)


def _number(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,18})(\.[0-9]{1,9})?", text.strip())
    return int(match[1]) if match else None
