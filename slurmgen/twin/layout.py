"""A twin's nodes, scaled down from a profile."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import TwinError, did_you_mean
from slurmgen.sites.model import Node, Partition, Site
from slurmgen.sites.nodes import over, place_of
from slurmgen.slurm.units import canonical_size, megabytes
from slurmgen.text import counted, listed
from slurmgen.twin.installation import Installation

_GPUS, _CPUS, _MEMORY = 8, 64, 512 * 1024
"Of a node whose facts the profile omits; memory in MiB. It is larger where the shares of its GPUs need it."
DEFAULT_PARTITIONS = {"main": Partition(default=True)}

_REFUSED = ("reservation", "nodelist", "exclude", "clusters", "bbf")
"Directives that name what only the site has; Slurm refuses a job for each."


class Shape(Struct, frozen=True):
    """The size of a node in Slurm's configuration; `memory` in MiB."""

    gpus: int
    cpus: int
    memory: int
    gpu_type: str | None = None

    def __str__(self) -> str:
        kind = f"{self.gpu_type} " if self.gpu_type else ""
        return f"{counted(self.cpus, 'CPU')}, {self.memory} MiB, {counted(self.gpus, f'{kind}GPU')}"


def partitions(site: Site) -> dict[str, Partition]:
    """The site's partitions; a site that names none gets `main`."""
    return site.partitions or DEFAULT_PARTITIONS


def shape(site: Site, partition: str, gpu_type: str | None = None) -> Shape:
    """One node of a partition: what a job is allocated there, or else the facts of the usual GPU type.

    Raises:
        TwinError: the site has no such GPU type.
    """
    if gpu_type and gpu_type not in site.gpu.types:
        raise TwinError(f"{site.name} has no GPU type {gpu_type!r}", did_you_mean(gpu_type, site.gpu.types))
    known, kind = _known(site, partition, gpu_type)
    node = over(_assumed(site, known.gpus), known)
    gpus = (node.gpus or 0) if partitions(site)[partition].has_gpus else 0
    memory = megabytes(node.memory or "")
    return Shape(gpus=gpus, cpus=node.cpus or 1, memory=memory, gpu_type=kind if gpus else None)


def _assumed(site: Site, gpus: int | None) -> Node:
    """A node for facts that the profile omits: large enough for the shares of its GPUs."""
    count = gpus or _GPUS
    cpus, memory = (site.cpu.per_gpu or 0) * count, megabytes(site.memory.per_gpu or "0") * count
    return Node(gpus=_GPUS, cpus=max(_CPUS, cpus), memory=canonical_size(max(_MEMORY, memory)))


def _known(site: Site, partition: str, gpu_type: str | None) -> tuple[Node, str | None]:
    place = place_of(site, partition, gpu_type)
    if place.gpu_type:
        return place.node, place.gpu_type
    kind = usual_type(site, place.node.gpus)
    return over(site.gpu.types[kind] if kind else Node(), place.node), kind


def features(site: Site) -> tuple[str, ...]:
    """The node features that the site's directives ask for.

    >>> features(Site(name="x", sbatch={"constraint": "[rack1*2&rack2*4]|a100&(nvlink|ib)"}))
    ('rack1', 'rack2', 'a100', 'nvlink', 'ib')
    """
    tables = [site.sbatch, *(table.sbatch for table in site.when.values())]
    expressions = " ".join(
        [
            *(str(table.get(option, "")) for table in tables for option in ("constraint", "prefer", "batch")),
            *(kind.constraint or "" for kind in site.gpu.types.values()),
        ]
    )
    # An asterisk precedes a number of nodes.
    words = re.split(r"[^\w.+:/=@-]+", re.sub(r"\*\d+", " ", expressions))
    return tuple(dict.fromkeys(filter(None, words)))


def licenses(site: Site) -> tuple[str, ...]:
    """The licenses that the site's directives ask for, without their numbers.

    >>> licenses(Site(name="x", sbatch={"licenses": "scratch:2,fluent@server"}))
    ('scratch', 'fluent@server')
    """
    wanted = re.split("[,;|]", str(site.sbatch.get("licenses", "")))
    names = (name.strip().partition(":")[0] for name in wanted)
    return tuple(dict.fromkeys(filter(re.compile(r"[\w.@+-]+").fullmatch, names)))


def temporary_disk(site: Site) -> int:
    """The MiB of temporary disk that the site's directives ask for; 0 if none, or if it is not a size."""
    with suppress(ValueError):
        return megabytes(str(site.sbatch.get("tmp", "")))
    return 0


def usual_type(site: Site, gpus: int | None) -> str | None:
    """The GPU type of a node with that many GPUs, according to the profile."""
    fitting = (
        name for name, kind in site.gpu.types.items() if None in (gpus, kind.gpus) or kind.gpus == gpus
    )
    return next(fitting, None)


def assumptions(site: Site, gpu_type: str | None = None, *, enforced: bool = False) -> Iterator[str]:
    """What the twin assumes because the profile does not say it, and how it differs from the site.

    Args:
        enforced: whether accounting enforces QoS and limits.
    """
    if not site.partitions:
        yield "no partition is known; it has one, main"
    nodes = {name: _known(site, name, gpu_type)[0] for name in partitions(site)}
    for fact, text in {"gpus": "GPUs per node", "cpus": "CPUs per node", "memory": "memory per node"}.items():
        missing: dict[int | str, list[str]] = {}
        for name, node in nodes.items():
            if getattr(node, fact) is None and (fact != "gpus" or partitions(site)[name].has_gpus):
                missing.setdefault(getattr(_assumed(site, node.gpus), fact), []).append(name)
        for assumed, names in missing.items():
            yield f"{text} unknown in {_named(names)}; took {assumed}"
    yield from _differences(site)
    if not enforced:
        yield from _not_enforced(site)


def _named(partitions: list[str]) -> str:
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {listed(partitions)}"


def _differences(site: Site) -> Iterator[str]:
    if site.container and site.container.engine in {"podman", "charliecloud"}:
        yield f"containers run with the {site.container.engine} of this machine, which must be installed"
    elif site.container and site.container.engine != "apptainer":
        yield f"a stand-in for {site.container.engine} runs the commands of containers on this machine"
    for option in filter(site.sbatch.__contains__, _REFUSED):
        yield f"jobs with the profile's --{option} are refused: only {site.name} knows what it names"
    if site.rendezvous.suffix:
        yield f"node names with the suffix {site.rendezvous.suffix!r} do not resolve here"


def _not_enforced(site: Site) -> Iterator[str]:
    """What only accounting enforces."""
    if any(limits.max_gpus for limits in [*site.partitions.values(), *site.qos.values()]):
        yield "limits on a job's GPUs are not enforced: Slurm needs accounting for that"
    if site.qos:
        yield f"any --qos is accepted, {', '.join(site.qos)} or not: Slurm needs accounting to know them"


LOCALHOST = "127.0.0.1"
MOST_NODES = 254


class Group(Struct, frozen=True):
    """Nodes of one shape, numbered from `first`, and the partitions they are in."""

    first: int
    count: int
    shape: Shape
    partitions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Node names, which are loopback addresses.

        Such a name resolves for every user without a line in /etc/hosts, so MASTER_ADDR works.
        """
        return tuple(f"127.0.0.{number}" for number in range(self.first, self.first + self.count))

    @property
    def hostlist(self) -> str:
        """The names as Slurm writes them: 127.0.0.[1-2]."""
        return f"127.0.0.{span(self.first, self.count)}"


class Layout(Struct, frozen=True, kw_only=True):
    """One twin on this machine."""

    site: Site
    groups: tuple[Group, ...]
    folder: Path
    "Configuration, logs and keys; private."
    run: Path
    "Sockets, pid files and other files that need a short path; private too."
    user: str
    hostname: str
    loopback: str | None
    "The loopback address of the host name; None if it has another address."
    slurm: Installation
    port: int
    "The port of slurmctld; the ports of the nodes follow, then sshd's and slurmdbd's."
    accounting: bool = False
    "Whether Slurm enforces accounts, QoS and their limits."
    accounts: tuple[str, ...] = ()
    "The accounts that jobs may be charged to; none if any is accepted."

    @property
    def address(self) -> str:
        """The address of the daemons."""
        return self.loopback or LOCALHOST

    @property
    def daemons_conf(self) -> Path:
        """The slurm.conf of the daemons: a separate file if they listen on a separate address."""
        return self.folder / ("slurm.conf" if self.loopback in {None, LOCALHOST} else "daemons.conf")

    @property
    def nodes(self) -> tuple[str, ...]:
        """All node names in order."""
        return tuple(name for group in self.groups for name in group.names)

    @property
    def ssh_port(self) -> int:
        """The port of sshd."""
        return self.port + len(self.nodes) + 1

    @property
    def dbd_port(self) -> int:
        """The port of slurmdbd."""
        return self.ssh_port + 1

    @property
    def bash_env(self) -> Path | None:
        """The file with the PATH of Bash, if Slurm is not that of this machine."""
        return self.folder / "bash_env" if self.slurm.bin else None

    @property
    def ssh_hosts(self) -> tuple[str, ...]:
        """The host names in its ssh_config: the real login host, and the site."""
        return tuple(dict.fromkeys(filter(None, (self.site.login.host, self.site.name))))

    def node_ports(self, group: Group) -> str:
        """The ports of a group's slurmds as Slurm writes them."""
        return span(self.port + group.first, group.count)


def groups(site: Site, nodes: int, gpu_type: str | None = None) -> tuple[Group, ...]:
    """`nodes` nodes for each different shape among the site's partitions.

    Raises:
        TwinError: there are too many nodes, or the site has no such GPU type.
    """
    by_shape: dict[Shape, list[str]] = {}
    for name in partitions(site):
        by_shape.setdefault(shape(site, name, gpu_type), []).append(name)
    most = MOST_NODES // len(by_shape)
    if not 1 <= nodes <= most:
        raise TwinError(f"a twin cannot have {nodes} nodes", f"Give it 1 to {most}.")
    return tuple(_numbered(by_shape, nodes))


def span(first: int, count: int) -> str:
    """Consecutive numbers as Slurm writes them.

    >>> span(1, 1), span(3, 2)
    ('1', '[3-4]')
    """
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"


def _numbered(by_shape: dict[Shape, list[str]], nodes: int) -> Iterator[Group]:
    for index, (kind, names) in enumerate(by_shape.items()):
        yield Group(first=1 + index * nodes, count=nodes, shape=kind, partitions=tuple(names))
