"""Connect to a host with paramiko, through its jump hosts, each with its own host key and login."""

import contextlib
import logging
import socket
import subprocess

import paramiko
from msgspec import Struct

from slurmgen.errors import AuthenticationFailed, ConfigError, ConnectionFailed, SlurmgenError
from slurmgen.remote.ssh import algorithms, host_keys
from slurmgen.remote.ssh.authenticate import log_in
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.errors import ERRORS, Dropped, translated
from slurmgen.remote.ssh.keepalive import Keepalive, MonitoredSocket
from slurmgen.remote.ssh.prompt import NotAnswered, Prompt

CONNECT_TIMEOUT = 20.0
"Seconds for the network connection and for the handshake, each."
HANDSHAKE_LIMIT = 1_000_000
"Bytes that a host may send before the key exchange; a few kilobytes are usual."
ANSWER_TIMEOUT = 120.0
"Seconds for one authentication step; the user may have to look up a code."
# Without a handler Python prints paramiko's warnings, tracebacks included.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Link(Struct, frozen=True):
    """A connection after the login."""

    connection: paramiko.Transport
    keepalive: Keepalive
    login: str
    "How the login succeeded."


def check_host_keys(to: Destination) -> tuple[Destination, ...]:
    """The jump hosts and the host itself whose keys are those of known_hosts, as far as no prompt is needed.

    The check ends at a host that needs a password or code, whose key or algorithms only OpenSSH supports,
    or that is reached through a ProxyCommand, which may show a prompt.

    Raises:
        ConnectionFailed, HostKeyError: for the first host that cannot be reached, or has another key.
    """
    checked: list[Destination] = []
    previous: Link | None = None
    with contextlib.ExitStack() as resources, contextlib.suppress(AuthenticationFailed, ConfigError):
        for host in to.chain:
            if host.proxy_command or host_keys.known(host).by_authority_alone:
                break
            handshake = _handshake(host, previous, resources)
            checked.append(host)
            if host is not to:
                previous = _authenticated(handshake, host, previous, None, resources)
    return tuple(checked)


def logged_in(to: Destination, prompt: Prompt | None, resources: contextlib.ExitStack) -> Link:
    """Log in to a host, through its jump hosts."""
    previous = logged_in(to.jump, prompt, resources) if to.jump else None
    return _authenticated(_handshake(to, previous, resources), to, previous, prompt, resources)


class _Handshake(Struct, frozen=True):
    """A connection whose host key is known, before the login."""

    connection: "_Connection"
    sock: MonitoredSocket


def _handshake(to: Destination, previous: Link | None, resources: contextlib.ExitStack) -> _Handshake:
    with _named(to):
        sock = MonitoredSocket(resources.enter_context(_socket(to, previous, resources)))
        sock.limit = HANDSHAKE_LIMIT
        connection = _connection(sock, resources)
        _exchange_keys(connection, sock, to)
    return _Handshake(connection, sock)


def _authenticated(
    handshake: _Handshake,
    to: Destination,
    previous: Link | None,
    prompt: Prompt | None,
    resources: contextlib.ExitStack,
) -> Link:
    with _named(to):
        login = _unless_broken(handshake.connection, to, prompt)
    keepalive = resources.enter_context(Keepalive(handshake.connection, handshake.sock))
    return Link(handshake.connection, keepalive, f"{previous.login}, then {login}" if previous else login)


def _unless_broken(connection: "_Connection", to: Destination, prompt: Prompt | None) -> str:
    """How the login succeeded. paramiko reports a connection that breaks meanwhile as a refused login.

    sshd sends SSH_MSG_DISCONNECT to a user who tries too many keys.
    """
    try:
        return log_in(connection, to, prompt)
    except (AuthenticationFailed, paramiko.AuthenticationException) as error:
        if connection.is_active() or connection.goodbye or isinstance(error, NotAnswered):
            raise
        raise paramiko.SSHException("it broke during the login") from error


def _named(to: Destination) -> contextlib.AbstractContextManager[None]:
    return translated(alias=to.alias, host=to.host, port=to.port, user=to.user, ssh=to.ssh)


class _Connection(paramiko.Transport):
    """A connection that reports any exception of paramiko at a malformed message as an SSH error."""

    goodbye = False
    "Whether the host has ended the connection by a message."

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        self.goodbye = True
        super()._parse_disconnect(message)  # type: ignore[misc]

    def get_exception(self) -> Exception | None:
        """The error that ended the connection, if there is one."""
        error = super().get_exception()
        if error is None or isinstance(error, (*ERRORS, SlurmgenError)):
            return error
        return paramiko.SSHException(f"it sent what is not SSH ({type(error).__name__}: {error})")


def _connection(sock: MonitoredSocket, resources: contextlib.ExitStack) -> _Connection:
    connection = _Connection(sock)  # type: ignore[arg-type]  # it has every method that is used
    resources.callback(connection.close)
    connection.banner_timeout = connection.handshake_timeout = CONNECT_TIMEOUT
    connection.auth_timeout = ANSWER_TIMEOUT
    return connection


def _socket(
    to: Destination, previous: Link | None, resources: contextlib.ExitStack
) -> socket.socket | paramiko.Channel:
    if previous:
        return _forwarded(to, previous)
    if to.proxy_command:
        return _proxied(to.proxy_command, resources)
    connected = socket.create_connection((to.host, to.port), CONNECT_TIMEOUT)
    # paramiko writes in small parts; each would wait for the acknowledgement of the one before.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _forwarded(to: Destination, previous: Link) -> paramiko.Channel:
    """A channel to a host, through its jump host."""
    assert to.jump  # noqa: S101 (`previous` leads to it)
    try:
        return previous.connection.open_channel(
            "direct-tcpip", (to.host, to.port), ("127.0.0.1", 0), timeout=CONNECT_TIMEOUT
        )
    except paramiko.ChannelException as error:
        raise ConnectionFailed(
            f"{to.jump.alias} cannot connect to {to.alias} at {to.host} port {to.port}: {error.text}",
            f"Check the name, and whether {to.jump.alias} allows forwarding; `{to.ssh}` must work first.",
        ) from error


def _proxied(command: str, resources: contextlib.ExitStack) -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        # The user's own command from ssh_config, run by a shell as OpenSSH runs it.
        argv = ["/bin/sh", "-c", f"exec {command}"]
        resources.callback(
            _end,
            subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True),
        )
    return ours


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _exchange_keys(connection: paramiko.Transport, sock: MonitoredSocket, to: Destination) -> None:
    algorithms.restrict(connection, to.algorithms, to.alias)
    keys = host_keys.known(to)
    options = connection.get_security_options()
    options.key_types = keys.algorithms(options.key_types)
    try:
        connection.start_client(timeout=CONNECT_TIMEOUT)
    except (paramiko.SSHException, EOFError, ConnectionError) as error:
        if sock.is_over_limit:
            raise paramiko.SSHException(f"it sent {HANDSHAKE_LIMIT:,} bytes that are not SSH") from None
        is_silent = isinstance(error.__context__, TimeoutError)
        if not (connection.remote_version or is_silent or to.proxy_command):  # that has other reasons too
            raise Dropped(str(error)) from error
        raise
    if not connection.initial_kex_done:
        raise TimeoutError(f"no keys were exchanged within {CONNECT_TIMEOUT:g} seconds")
    sock.limit = None
    host_keys.check(connection.get_remote_server_key(), keys, to)
