"""The kinds of nodes of a cluster."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmgen.sites.discover.records import COUNT, Gres, gpus, known, number

_MARGIN = 1.01
"Nodes of one kind may differ by so much memory; the least of them counts."


class Kind(NamedTuple):
    """What Slurm can allocate of a node: the facts that a profile states."""

    gpu_type: str
    gpus: int
    cpus: int
    memory: int
    "In MiB."
    threads_per_core: int

    @property
    def is_slice(self) -> bool:
        """Whether its GPUs are parts of a GPU (MIG), such as a100_1g.5gb."""
        return re.search(r"\dg\.\d", self.gpu_type) is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Its GPUs, CPUs and memory."""
        return self.gpus, self.cpus, self.memory


class Group(NamedTuple):
    """Equal nodes."""

    kinds: tuple[Kind, ...]
    "One for each type of GPUs; one without GPUs if they have none."
    number: int
    partitions: tuple[str, ...]
    architecture: str
    features: tuple[str, ...]


def groups(nodes: Iterable[Mapping[str, str]]) -> list[Group]:
    """The nodes of `scontrol show node`, without those that do not exist yet (FUTURE)."""
    found = [_group(node) for node in nodes if "FUTURE" not in node.get("State", "")]
    least = _least_memory(kind for group in found for kind in group.kinds)
    return [
        group._replace(kinds=tuple(kind._replace(memory=least[kind]) for kind in group.kinds))
        for group in found
    ]


def kinds(found: Iterable[Group]) -> dict[str, Counter[Kind]]:
    """The kinds of nodes of each partition, with their numbers of nodes."""
    counts: dict[str, Counter[Kind]] = {}
    for group in found:
        for name in group.partitions:
            counts.setdefault(name, Counter()).update(dict.fromkeys(group.kinds, group.number))
    return counts


def usual(counts: Sequence[Counter[Kind]]) -> Kind | None:
    """The commonest kind with GPUs; of kinds as common, the larger."""
    total: Counter[Kind] = Counter()
    for count in counts:
        total.update(count)
    with_gpus = [kind for kind in total if kind.gpus]
    return max(with_gpus, key=lambda kind: (total[kind], not kind.is_slice, kind.gpus, kind), default=None)


def architecture(found: Iterable[Group], kind: Kind) -> str:
    """The commonest architecture of the nodes of a kind; a node that never started reports none."""
    counts: Counter[str] = Counter()
    for group in found:
        if kind in group.kinds and group.architecture:
            counts[group.architecture] += group.number
    return max(counts, key=lambda name: counts[name], default="")


def features(found: Iterable[Group], kind: Kind) -> tuple[str, ...]:
    """The features that all nodes of a kind have."""
    lists = [group.features for group in found if kind in group.kinds]
    return tuple(name for name in lists[0] if all(name in names for names in lists)) if lists else ()


def _group(node: Mapping[str, str]) -> Group:
    return Group(
        kinds=tuple(_kinds(node)),
        number=number(node.get(COUNT)) or 1,
        partitions=_names(node.get("Partitions")),
        architecture=node.get("Arch") or "",
        features=_names(node.get("AvailableFeatures")),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (known(text) or "").split(",")))


def _kinds(node: Mapping[str, str]) -> Iterator[Kind]:
    """A kind for each type of the node's GPUs; one without GPUs if it has none."""
    # CPUEfctv, since 22.05, leaves out the cores that are reserved for the system.
    cpus = number(node.get("CPUEfctv")) or number(node.get("CPUTot")) or 0
    memory = (number(node.get("RealMemory")) or 0) - (number(node.get("MemSpecLimit")) or 0)
    for gres in gpus(known(node.get("Gres"))) or (Gres("", 0),):
        yield Kind(
            gpu_type=gres.type,
            gpus=gres.number,
            cpus=cpus,
            memory=memory,
            threads_per_core=number(node.get("ThreadsPerCore")) or 1,
        )


def _least_memory(found: Iterable[Kind]) -> dict[Kind, int]:
    """The memory of each kind: the least of those that differ from it by a small margin only."""
    least: dict[Kind, int] = {}
    last: Kind | None = None
    for kind in sorted(set(found), key=lambda kind: (kind._replace(memory=0), kind.memory)):
        is_same = last and kind._replace(memory=last.memory) == last and kind.memory <= last.memory * _MARGIN
        last = last if is_same and last else kind
        least[kind] = last.memory
    return least
