"""Layout: the nodes, ports and files of one twin, from which its configuration follows."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import TwinError
from slurmgen.sites.model import Site
from slurmgen.twin.installation import Installation
from slurmgen.twin.shape import Shape, partitions, shape

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
    "The port of slurmctld; those of the nodes follow, then those of sshd and slurmdbd."
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
