"""From here to a host with paramiko: over the hosts before it, each with its own key and login."""

import contextlib
import logging
import socket
import subprocess

import paramiko
from msgspec import Struct

from slurmgen.errors import AuthenticationFailed, ConfigError, ConnectionFailed, SlurmgenError
from slurmgen.remote.ssh import algorithms, host_keys
from slurmgen.remote.ssh.authenticate import log_in
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.errors import ERRORS, translated
from slurmgen.remote.ssh.keepalive import Heard, Pulse
from slurmgen.remote.ssh.prompt import Ask

CONNECT_TIMEOUT = 20.0
"Seconds for the network connection and for the handshake, each."
HANDSHAKE_LIMIT = 1_000_000
"Bytes that a host may send before keys are exchanged; some kilobytes are usual."
ANSWER_TIMEOUT = 120.0
"Seconds for one answer to the host; a person may have to fetch a code first."
# Without a handler Python prints paramiko's warnings, tracebacks included.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Link(Struct, frozen=True):
    """A connection on which somebody is logged in."""

    connection: paramiko.Transport
    pulse: Pulse
    login: str
    "How they came in."


def check_host_keys(to: Destination) -> tuple[Destination, ...]:
    """Look whether the hosts on the way show the keys that known_hosts has, as far as one gets unasked.

    Returns those that do. Behind a host where only a person gets in, or whose key or algorithms only OpenSSH
    can judge, none is seen; nor through a ProxyCommand, which may ask a person too.

    Raises:
        ConnectionFailed, HostKeyError: as they say, of the first host where it is so.
    """
    seen: list[Destination] = []
    before: Link | None = None
    with contextlib.ExitStack() as resources, contextlib.suppress(AuthenticationFailed, ConfigError):
        for hop in to.hops:
            if hop.proxy_command or host_keys.known(hop).by_authority_alone:
                break
            met = _met(hop, before, resources)
            seen.append(hop)
            if hop is not to:
                before = _let_in(met, hop, before, None, resources)
    return tuple(seen)


def logged_in(to: Destination, ask: Ask | None, resources: contextlib.ExitStack) -> Link:
    """Log in at a host, after those before it."""
    before = logged_in(to.jump, ask, resources) if to.jump else None
    return _let_in(_met(to, before, resources), to, before, ask, resources)


class _Met(Struct, frozen=True):
    """A host that showed the key we know; nobody is logged in."""

    connection: paramiko.Transport
    heard: Heard


def _met(to: Destination, before: Link | None, resources: contextlib.ExitStack) -> _Met:
    with _named(to):
        heard = Heard(resources.enter_context(_socket(to, before, resources)))
        heard.limit = HANDSHAKE_LIMIT
        connection = _connection(heard, resources)
        _shake_hands(connection, heard, to)
    return _Met(connection, heard)


def _let_in(
    met: _Met, to: Destination, before: Link | None, ask: Ask | None, resources: contextlib.ExitStack
) -> Link:
    with _named(to):
        login = log_in(met.connection, to, ask)
    pulse = resources.enter_context(Pulse(met.connection, met.heard))
    return Link(met.connection, pulse, f"{before.login}, then {login}" if before else login)


def _named(to: Destination) -> contextlib.AbstractContextManager[None]:
    return translated(alias=to.alias, host=to.host, port=to.port, user=to.user, ssh=to.ssh)


class _Connection(paramiko.Transport):
    """A connection on which whatever a malformed message makes paramiko raise is an error of SSH."""

    def get_exception(self) -> Exception | None:
        """What ended the connection, if it has ended."""
        error = super().get_exception()
        if error is None or isinstance(error, (*ERRORS, SlurmgenError)):
            return error
        return paramiko.SSHException(f"it sent what is not SSH ({type(error).__name__}: {error})")


def _connection(heard: Heard, resources: contextlib.ExitStack) -> paramiko.Transport:
    connection = _Connection(heard)  # type: ignore[arg-type]  # it has all that is used of a socket
    resources.callback(connection.close)
    connection.banner_timeout = connection.handshake_timeout = CONNECT_TIMEOUT
    connection.auth_timeout = ANSWER_TIMEOUT
    return connection


def _socket(
    to: Destination, before: Link | None, resources: contextlib.ExitStack
) -> socket.socket | paramiko.Channel:
    if before:
        return _forwarded(to, before)
    if to.proxy_command:
        return _proxied(to.proxy_command, resources)
    connected = socket.create_connection((to.host, to.port), CONNECT_TIMEOUT)
    # paramiko writes in small parts; each would wait until the host has acknowledged the one before.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _forwarded(to: Destination, before: Link) -> paramiko.Channel:
    """A channel to a host, through the one before it."""
    assert to.jump  # noqa: S101 (there is one before it)
    try:
        return before.connection.open_channel(
            "direct-tcpip", (to.host, to.port), ("127.0.0.1", 0), timeout=CONNECT_TIMEOUT
        )
    except paramiko.ChannelException as error:
        raise ConnectionFailed(
            f"{to.jump.alias} cannot connect to {to.alias} at {to.host} port {to.port}: {error.text}",
            f"Is the name known there, and may one pass on? `{to.ssh}` should work first.",
        ) from error


def _proxied(command: str, resources: contextlib.ExitStack) -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        # A person's own command from ssh_config, run by a shell as OpenSSH runs it.
        argv = ["/bin/sh", "-c", f"exec {command}"]
        resources.callback(
            _end,
            subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True),
        )
    return ours


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _shake_hands(connection: paramiko.Transport, heard: Heard, to: Destination) -> None:
    algorithms.restrict(connection, to.algorithms, to.alias)
    keys = host_keys.known(to)
    options = connection.get_security_options()
    options.key_types = keys.algorithms(options.key_types)
    try:
        connection.start_client(timeout=CONNECT_TIMEOUT)
    except paramiko.SSHException:
        if heard.is_over_limit:
            raise paramiko.SSHException(f"it sent {HANDSHAKE_LIMIT:,} bytes that are not SSH") from None
        raise
    if not connection.initial_kex_done:
        raise TimeoutError(f"no keys were exchanged within {CONNECT_TIMEOUT:g} seconds")
    heard.limit = None
    host_keys.check(connection.get_remote_server_key(), keys, to)
