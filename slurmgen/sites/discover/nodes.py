"""The kinds of nodes of a cluster."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmgen.sites.discover.records import Gres, gpus, known, number


class Kind(NamedTuple):
    """What Slurm can allocate of a node: the facts that a profile states."""

    gpu_type: str
    gpus: int
    cpus: int
    memory: int
    "In MiB."
    threads_per_core: int
    architecture: str

    @property
    def is_slice(self) -> bool:
        """Whether its GPUs are parts of a GPU (MIG), such as a100_1g.5gb."""
        return re.search(r"\dg\.\d", self.gpu_type) is not None


def kinds(nodes: Iterable[Mapping[str, str]]) -> dict[str, Counter[Kind]]:
    """The kinds of nodes of each partition, with their numbers of nodes."""
    found: dict[str, Counter[Kind]] = {}
    for node in nodes:
        for name in filter(None, (known(node.get("Partitions")) or "").split(",")):
            found.setdefault(name, Counter()).update(_kinds(node))
    return found


def usual(counts: Sequence[Counter[Kind]]) -> Kind | None:
    """The commonest kind with GPUs; of kinds as common, the larger."""
    total: Counter[Kind] = Counter()
    for count in counts:
        total.update(count)
    with_gpus = [kind for kind in total if kind.gpus]
    return max(with_gpus, key=lambda kind: (total[kind], not kind.is_slice, kind.gpus, kind), default=None)


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
            architecture=node.get("Arch") or "",
        )
