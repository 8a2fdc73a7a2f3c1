"""Route: which way leads to a site, kept with each job so that it is found again."""

import shutil
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from slurmgen.errors import ConfigError
from slurmgen.remote.transport import Transport

if TYPE_CHECKING:
    from slurmgen.config.user import Personal
    from slurmgen.remote.ssh.prompt import Ask
    from slurmgen.sites.model import Site

Via = Literal["ssh", "local", "twin"]
SshClient = Literal["paramiko", "openssh"]
_NAME_A_HOST = (
    "Name the login host with --host, as `host` in personal.toml, or as [login] host in the profile;"
)


class Route(Struct, frozen=True, kw_only=True):
    """One way to one site. It holds no secret."""

    site: str
    via: Via
    host: str | None = None
    "`[USER@]HOST` where it goes over SSH; an alias of ssh_config, mostly."
    ssh_config: str | None = None
    ssh_client: SshClient = "paramiko"


def route(
    site: "Site",
    personal: "Personal",
    *,
    via: Via | None = None,
    host: str | None = None,
    ssh_config: str | None = None,
    ssh_client: SshClient | None = None,
) -> Route:
    """The way to a site: what is said now, then your personal file, then the profile.

    A user in `host` is taken before the personal one, and that one before ssh_config's.

    Raises:
        ConfigError: it is to go over SSH, but no host is known.
    """
    host = host or personal.host or site.login.host
    via = via or ("ssh" if host else "local")
    if via != "ssh":
        return Route(site=site.name, via=via)
    if not host:
        raise ConfigError(
            f"site {site.name} has no login host",
            f"{_NAME_A_HOST} or use --via local on a login node.",
        )
    if personal.user and "@" not in host:
        host = f"{personal.user}@{host}"
    return Route(
        site=site.name,
        via=via,
        host=host,
        ssh_config=ssh_config or personal.ssh_config,
        ssh_client=ssh_client or personal.ssh_client or "paramiko",
    )


def open_route(way: Route, ask: "Ask | None" = None) -> Transport:
    """Go there.

    Args:
        way: where to.
        ask: reads a password from the terminal; None where there is none.

    Raises:
        RemoteError: the host is not reached, not the one we know, or lets nobody in.
        ConfigError: it is this machine, which has no Slurm.
        TwinError: it is a twin, and none runs.
    """
    if way.via == "ssh":
        from slurmgen.remote.ssh.config import destination

        to = destination(way.host or "", way.ssh_config)
        if way.ssh_client == "openssh":
            from slurmgen.remote.ssh import openssh

            return openssh.connect(to, ask)
        from slurmgen.remote.ssh import paramiko

        return paramiko.connect(to, ask)
    from slurmgen.remote.local import LocalTransport

    if way.via == "twin":
        from slurmgen import twin

        return LocalTransport(twin.find(way.site).environ())
    _require_slurm(way)
    return LocalTransport()


def _require_slurm(way: Route) -> None:
    """Refuse to use this machine as a login node if it is none."""
    if shutil.which("sbatch") is None:
        raise ConfigError(
            f"site {way.site} is used from this machine (--via local, the default without a login host), "
            "which has no Slurm: there is no sbatch on PATH",
            f"{_NAME_A_HOST} or run slurmgen on a login node.",
        )
