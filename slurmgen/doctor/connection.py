"""The steps to the far side: where the name leads, who is there, and whether we are let in."""

import socket

from slurmgen.doctor.visit import NotChecked, Visit
from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError, SlurmgenError
from slurmgen.remote.ssh.destination import Destination

CONNECT_TIMEOUT = 20.0


def ssh_config(visit: Visit) -> str:
    """Where ssh_config leads."""
    if visit.way.via != "ssh":
        raise NotChecked("it is this machine")
    from slurmgen.remote.ssh.config import destination

    visit.to = destination(visit.way.host or "", visit.way.ssh_config)
    return ", then ".join(f"{hop.alias} is {hop.user}@{hop.host} port {hop.port}" for hop in visit.to.chain)


def host_name(visit: Visit) -> str:
    """Whether the nearest host has an address; the names of those behind it need mean nothing here."""
    first = _nearest(visit)
    try:
        found = socket.getaddrinfo(first.host, first.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(
            f"the name {first.host} is not known here: {error}",
            "Is it spelled right? Is a VPN needed? --host names another one.",
        ) from None
    addresses = ", ".join(dict.fromkeys(str(one[4][0]) for one in found))
    return f"{first.host} is {addresses}" + _behind(visit)


def port(visit: Visit) -> str:
    """Whether somebody listens at the nearest host, and at each behind it as the one before finds it."""
    first = _nearest(visit)
    try:
        socket.create_connection((first.host, first.port), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise ConnectionFailed(
            f"port {first.port} of {first.host} does not open: {error}",
            "Is a VPN needed? Is the host up? ssh_config can name another Port.",
        ) from None
    opens = f"port {first.port} of {first.host} opens"
    if not _behind(visit):
        return opens
    _enter(visit)
    if isinstance(visit.trouble, ConnectionFailed):
        raise visit.trouble
    return opens + (_behind(visit) if visit.trouble else _onwards(visit))


def host_key(visit: Visit) -> str:
    """Whether every host shows the key that known_hosts has."""
    _enter(visit)
    if visit.way.via != "ssh":
        raise NotChecked("it is this machine")
    if isinstance(visit.trouble, HostKeyError):
        raise visit.trouble
    if visit.trouble and not isinstance(visit.trouble, AuthenticationFailed):
        raise NotChecked("there is no connection")
    return "as known_hosts has it" + (", as far as we came" if visit.trouble and _behind(visit) else "")


def login(visit: Visit) -> str:
    """Whether we are in, and by what."""
    if visit.trouble:
        raise visit.trouble
    return visit.far.login


def _enter(visit: Visit) -> None:
    """Log in, if nobody has yet."""
    if visit.transport or visit.trouble:
        return
    try:
        visit.transport = visit.open()
    except SlurmgenError as error:
        visit.trouble = _located(error, visit)


def _located(error: SlurmgenError, visit: Visit) -> SlurmgenError:
    """What went wrong, with the host where it did: OpenSSH names the last one of a chain for any of them."""
    if visit.way.ssh_client != "openssh" or not visit.to or not visit.to.jump:
        return error
    if not isinstance(error, ConnectionFailed | AuthenticationFailed):
        return error
    from slurmgen.remote.ssh.jump_hosts import check_host_keys

    try:
        seen = check_host_keys(visit.to)
    except (ConnectionFailed, HostKeyError) as found:
        return found if type(found) is type(error) else error
    if not seen or visit.to in seen:
        return error
    return type(error)(f"{error.fact}; keys alone lead to {seen[-1].alias} and no further", error.hint)


def _nearest(visit: Visit) -> Destination:
    if visit.to is None:
        raise NotChecked("it is this machine")
    first = visit.to.chain[0]
    if first.proxy_command:
        raise NotChecked(f"a ProxyCommand leads to {first.alias}")
    return first


def _hops(visit: Visit) -> tuple[Destination, ...]:
    return visit.to.chain if visit.to else ()


def _behind(visit: Visit) -> str:
    """The hosts that are reached through others."""
    names = [hop.alias for hop in _hops(visit)[1:]]
    return f"; {' and '.join(names)} behind it" if names else ""


def _onwards(visit: Visit) -> str:
    return "".join([f", from there port {hop.port} of {hop.host}" for hop in _hops(visit)[1:]])
