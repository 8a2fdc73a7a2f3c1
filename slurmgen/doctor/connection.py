"""Checks of the connection: the addresses of the hosts, their host keys, and the login."""

import socket

from slurmgen.doctor.visit import NotChecked, Visit
from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError, SlurmgenError
from slurmgen.remote.ssh.config import Destination

CONNECT_TIMEOUT = 20.0


def ssh_config(visit: Visit) -> str:
    """The hosts that ssh_config leads to."""
    if visit.route.via != "ssh":
        raise NotChecked("it is this machine")
    from slurmgen.remote.route import destination_of

    visit.to, _ = destination_of(visit.route)
    return ", then ".join(f"{hop.alias} is {hop.user}@{hop.host} port {hop.port}" for hop in visit.to.chain)


def host_name(visit: Visit) -> str:
    """Whether the first host has an address; the names of those behind it may be known only to that host."""
    first = _first_host(visit)
    try:
        addresses = socket.getaddrinfo(first.host, first.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(
            f"{first.host} has no address: {error}",
            "Check the spelling, connect to the VPN if one is needed, or name another host with --host.",
        ) from None
    listed = ", ".join(dict.fromkeys(str(address[4][0]) for address in addresses))
    return f"{first.host} is {listed}" + _behind(visit)


def port(visit: Visit) -> str:
    """Whether a server listens on the first host, and on each host behind it as seen from the one before."""
    first = _first_host(visit)
    try:
        socket.create_connection((first.host, first.port), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise ConnectionFailed(
            f"no connection to port {first.port} of {first.host}: {error}",
            "Check that the host is up, connect to the VPN if one is needed, or set Port in ssh_config.",
        ) from None
    reached = f"port {first.port} of {first.host} is open"
    if not _behind(visit):
        return reached
    _log_in(visit)
    if isinstance(visit.error, ConnectionFailed):
        raise visit.error
    return reached + (_behind(visit) if visit.error else _onwards(visit))


def host_key(visit: Visit) -> str:
    """Whether the host keys match known_hosts."""
    _log_in(visit)
    if visit.route.via != "ssh":
        raise NotChecked("it is this machine")
    if isinstance(visit.error, HostKeyError):
        raise visit.error
    if visit.error and not isinstance(visit.error, AuthenticationFailed):
        raise NotChecked("there is no connection")
    return "matches known_hosts" + (
        " on the hosts that were reached" if visit.error and _behind(visit) else ""
    )


def login(visit: Visit) -> str:
    """Whether the login works, and by which method."""
    if visit.error:
        raise visit.error
    return visit.transport.login


def _log_in(visit: Visit) -> None:
    if visit.connection or visit.error:
        return
    try:
        visit.connection = visit.open()
    except SlurmgenError as error:
        visit.error = _located(error, visit)


def _located(error: SlurmgenError, visit: Visit) -> SlurmgenError:
    """An error that names the host where it occurred: OpenSSH always names the last host of a chain."""
    if visit.route.ssh_client != "openssh" or not visit.to or not visit.to.jump:
        return error
    if not isinstance(error, ConnectionFailed | AuthenticationFailed):
        return error
    from slurmgen.remote.ssh.paramiko import check_host_keys

    try:
        seen = check_host_keys(visit.to)
    except (ConnectionFailed, HostKeyError) as cause:
        are_both = isinstance(cause, ConnectionFailed) and isinstance(error, ConnectionFailed)
        return cause if are_both else error
    if not seen or visit.to in seen:
        return error
    return type(error)(f"{error.fact}; login with keys works up to {seen[-1].alias}", error.hint)


def _first_host(visit: Visit) -> Destination:
    if visit.to is None:
        raise NotChecked("it is this machine")
    first = visit.to.chain[0]
    if first.proxy_command:
        raise NotChecked(f"{first.alias} is reached by a ProxyCommand")
    return first


def _hops(visit: Visit) -> tuple[Destination, ...]:
    return visit.to.chain if visit.to else ()


def _behind(visit: Visit) -> str:
    names = [hop.alias for hop in _hops(visit)[1:]]
    return f"; {' and '.join(names)} behind it" if names else ""


def _onwards(visit: Visit) -> str:
    return "".join([f", from there port {hop.port} of {hop.host}" for hop in _hops(visit)[1:]])
