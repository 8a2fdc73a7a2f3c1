"""The steps to the far side: where the name leads, who is there, and whether we are let in."""

import socket

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError, SlurmgenError
from slurmgen.remote.doctor.visit import NotChecked, Visit
from slurmgen.remote.ssh_config import Destination

CONNECT_TIMEOUT = 20.0


def ssh_config(visit: Visit) -> str:
    """Where ssh_config leads."""
    if visit.way.via != "ssh":
        raise NotChecked("it is this machine")
    from slurmgen.remote.ssh_config import destination

    visit.to = destination(visit.way.host or "", visit.way.ssh_config)
    return ", then ".join(f"{hop.alias} is {hop.user}@{hop.host} port {hop.port}" for hop in visit.to.hops)


def host_name(visit: Visit) -> str:
    """Whether the nearest host has an address; those behind it are known to it, and not to us."""
    first = _nearest(visit)
    try:
        found = socket.getaddrinfo(first.host, first.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionFailed(
            f"the name {first.host} is not known here: {error}",
            "Is it spelled right? Is a VPN needed? --host names another one.",
        ) from None
    addresses = ", ".join(dict.fromkeys(str(one[4][0]) for one in found))
    return f"{first.host} is {addresses}" + _behind(visit)


def port(visit: Visit) -> str:
    """Whether somebody listens at the nearest host."""
    first = _nearest(visit)
    try:
        socket.create_connection((first.host, first.port), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise ConnectionFailed(
            f"port {first.port} of {first.host} does not open: {error}",
            "Is a VPN needed? Is the host up? ssh_config can name another Port.",
        ) from None
    return f"port {first.port} of {first.host} opens" + _behind(visit)


def host_key(visit: Visit) -> str:
    """Whether every host shows the key that known_hosts has. This is where we log in."""
    try:
        visit.transport = visit.open()
    except SlurmgenError as error:
        visit.trouble = error
    if visit.way.via != "ssh":
        raise NotChecked("it is this machine")
    if isinstance(visit.trouble, HostKeyError):
        raise visit.trouble
    if visit.trouble and not isinstance(visit.trouble, AuthenticationFailed):
        raise NotChecked("there is no connection")
    return "as known_hosts has it"


def login(visit: Visit) -> str:
    """Whether we are in, and by what."""
    if visit.trouble:
        raise visit.trouble
    return visit.far.login


def _nearest(visit: Visit) -> Destination:
    if visit.to is None:
        raise NotChecked("it is this machine")
    first = visit.to.hops[0]
    if first.proxy_command:
        raise NotChecked(f"a ProxyCommand leads to {first.alias}")
    return first


def _behind(visit: Visit) -> str:
    assert visit.to  # noqa: S101 (it has a nearest hop)
    return f"; {visit.to.alias} is behind it" if visit.to.jump else ""
