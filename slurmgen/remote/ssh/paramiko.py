"""Commands over Paramiko, through jump hosts."""

import contextlib
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import paramiko
from msgspec import Struct

from slurmgen.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionBroke,
    ConnectionFailed,
    RemoteError,
    SlurmgenError,
)
from slurmgen.remote.frame import Attached, Frame, Framed, FramedTransport, Running
from slurmgen.remote.ssh import config, host_keys
from slurmgen.remote.ssh import prompt as ssh_terminal
from slurmgen.remote.ssh.authenticate import log_in
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.errors import ERRORS, Dropped, translated
from slurmgen.remote.ssh.prompt import NotAnswered, Prompt
from slurmgen.remote.ssh.sessions import Sessions
from slurmgen.remote.transport import (
    COMMAND_TIMEOUT,
    NO_LIMIT,
    PART,
    Duplex,
    Socket,
    command_line,
    ended_by_signal,
    timed_out,
    unreachable,
)

INTERVAL = 15.0
"Seconds between two requests to the host; they also keep the connection alive in firewalls."
SILENCE = 45.0
"Seconds without a byte after which the connection counts as broken."
_POLL = 1.0


class MonitoredSocket:
    """A socket, or a channel used as one, that records when data last arrived.

    It ends the connection when more than `limit` bytes arrive; None: no limit.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.limit: int | None = None
        self.is_silent = False
        "Whether the connection was ended because nothing arrived."
        self.received = 0
        self.last = time.monotonic()

    @property
    def is_over_limit(self) -> bool:
        """Whether more than `limit` bytes arrived."""
        return self.limit is not None and self.received > self.limit

    def recv(self, size: int) -> bytes:
        """The bytes that arrived."""
        data: bytes = self._sock.recv(size)
        self.last = time.monotonic()
        self.received += len(data)
        return b"" if self.is_over_limit else data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


@contextlib.contextmanager
def kept_alive(connection: paramiko.Transport, sock: MonitoredSocket) -> Iterator[None]:
    """Send the host a request regularly, and end the connection if nothing arrives.

    paramiko's own keepalive requests no reply, so it cannot detect a silent host.
    """
    ended = threading.Event()

    def send() -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            while not ended.wait(INTERVAL) and connection.is_active():
                connection.global_request("keepalive@openssh.com", wait=True)

    def watch() -> None:
        while not ended.wait(min(_POLL, SILENCE / 4)) and connection.is_active():
            if time.monotonic() - sock.last > SILENCE:
                sock.is_silent = True
                connection.close()

    # Two threads: sending blocks on a connection that takes no more bytes.
    for work in (send, watch):
        threading.Thread(target=work, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


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
    sock: MonitoredSocket
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


_Handshake = tuple["_Connection", MonitoredSocket]
"A connection whose host key is known, before the login."


def _handshake(to: Destination, previous: Link | None, resources: contextlib.ExitStack) -> _Handshake:
    with translated(to):
        sock = MonitoredSocket(resources.enter_context(_socket(to, previous, resources)))
        sock.limit = HANDSHAKE_LIMIT
        connection = _connection(sock, resources)
        _exchange_keys(connection, sock, to)
    return connection, sock


def _authenticated(
    handshake: _Handshake,
    to: Destination,
    previous: Link | None,
    prompt: Prompt | None,
    resources: contextlib.ExitStack,
) -> Link:
    connection, sock = handshake
    with translated(to):
        login = _unless_broken(connection, to, prompt)
    resources.enter_context(kept_alive(connection, sock))
    return Link(connection, sock, f"{previous.login}, then {login}" if previous else login)


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


class _Connection(paramiko.Transport):
    """A connection that reports any exception of paramiko at a malformed message as an SSH error."""

    goodbye = False
    "Whether the host has ended the connection by a message."

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        self.goodbye = True
        super()._parse_disconnect(message)  # type: ignore[misc]

    def _send_user_message(self, message: paramiko.Message) -> None:
        """Send a message once no new keys are being exchanged.

        paramiko's own thread replies to the end of a channel. It would wait there for an exchange of keys
        that it alone can complete, and after 30 seconds the connection would break.
        """
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            threading.Thread(target=self._send_later, args=(message,), daemon=True).start()
        else:
            super()._send_user_message(message)  # type: ignore[misc]

    def _send_later(self, message: paramiko.Message) -> None:
        with contextlib.suppress(*_BROKEN):
            super()._send_user_message(message)  # type: ignore[misc]

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
    config.restrict_algorithms(connection, to.algorithms, to.alias)
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


_BROKEN = (OSError, EOFError, paramiko.SSHException)


class Stream(Socket):
    """See Duplex."""

    broken = _BROKEN


class _Arrival(threading.Event):
    """Set when anything arrives on a channel.

    paramiko clears it when one buffer is empty. The file descriptor of a channel may be cleared while data
    arrives in the other buffer, and is then not readable before the next data.
    """

    def clear(self) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Wait for more than what has arrived."""
        super().clear()


class ChannelSession:
    """See Session."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        channel.settimeout(None)
        self._arrival = _Arrival()
        for buffer in (channel.in_buffer, channel.in_stderr_buffer):
            buffer.set_event(self._arrival)

    def receive(self, seconds: float) -> list[tuple[bool, bytes]]:
        """See Session."""
        channel, end = self.channel, time.monotonic() + seconds
        while True:
            self._arrival.forget()
            has_ended = channel.eof_received or channel.closed
            parts = []
            try:
                if channel.recv_ready():
                    parts.append((False, channel.recv(PART)))
                if channel.recv_stderr_ready():
                    parts.append((True, channel.recv_stderr(PART)))
            except _BROKEN:  # its exit status reports why
                _close(channel)
            if has_ended and not parts:
                return [(False, b""), (True, b"")]
            if parts or not self._arrival.wait(max(0.0, end - time.monotonic())):
                return parts

    def send(self, part: bytes) -> None:
        """See Session."""
        try:
            self.channel.sendall(part)
        except paramiko.SSHException as error:
            raise EOFError from error

    def end_input(self) -> None:
        """See Session."""
        with contextlib.suppress(*_BROKEN):
            self.channel.shutdown_write()

    def status(self, seconds: float) -> int | None:
        """See Session."""
        return self.channel.exit_status if self.channel.status_event.wait(seconds) else None

    def close(self) -> None:
        """See Session."""
        _close(self.channel)


class SshTransport(FramedTransport):
    """Runs commands over the SSH connection that `connect` made."""

    shell = ("bash", "-lc")

    def __init__(self, link: Link, to: Destination, resources: contextlib.ExitStack) -> None:
        self._connection = link.connection
        self._links = [link]
        self._opening = threading.Lock()
        "paramiko keeps one error for all channels that it opens at a time."
        self._to, self._resources = to, resources
        self._sessions = Sessions(to.alias, link, self._another)
        self.where = to.alias
        self.login = link.login

    def running(
        self, framed: Callable[[], Frame], timeout: float, patience: float, *, flows: bool
    ) -> Running:
        """See FramedTransport.running."""
        frame = framed()
        channel = self._session(patience)
        try:
            self._execute(channel, frame.argv, patience, frame.command)
            return Running(frame, ChannelSession(channel), timeout, flows=flows)
        except BaseException:
            _close(channel)
            raise

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """See Transport.attach."""
        if not terminal:
            framed = partial(Attached, self.where, self.shell, argv)
            return self.completed(framed, NO_LIMIT, COMMAND_TIMEOUT).returncode
        channel = self._session(COMMAND_TIMEOUT)
        try:
            status = ssh_terminal.attach_terminal(
                channel, lambda: self._execute(channel, argv, COMMAND_TIMEOUT, argv)
            )
        except _BROKEN:
            status = -1
        finally:
            _close(channel)
        if status < 0:
            raise self._broken(channel) or ended_by_signal(argv, self.where)
        return status

    def dial(self, host: str, port: int) -> Duplex:
        """See Transport.dial."""
        with translated(self._to):
            try:
                channel = self._connection.open_channel(
                    "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=COMMAND_TIMEOUT
                )
            except paramiko.ChannelException as error:
                raise unreachable(host, port, self.where, error.text) from None
        return Stream(channel)

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """See Transport.pipe."""
        frame = Frame(self.where, self.shell, argv)
        channel = self._session(COMMAND_TIMEOUT)
        self._execute(channel, frame.argv, COMMAND_TIMEOUT, argv)
        return Framed(Stream(channel), frame)

    def close(self) -> None:
        """Close the connection, those to its jump hosts, and the ProxyCommand if there is one."""
        self._resources.close()

    def _another(self) -> Link:
        link = logged_in(self._to, None, self._resources)
        self._links.append(link)
        return link

    def _session(self, timeout: float) -> paramiko.Channel:
        def begin(link: Link) -> paramiko.Channel | None:
            try:
                with self._opening:
                    return link.connection.open_session(timeout=timeout)
            except paramiko.ChannelException:
                return None

        with translated(self._to):
            return self._sessions.open(begin, timeout)
        raise AssertionError  # pragma: no cover (`translated` suppresses no error)

    def _execute(
        self, channel: paramiko.Channel, framed: Sequence[str], timeout: float, command: Sequence[str]
    ) -> None:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            _close(channel)  # it then waits no longer for the reply of the host

        timer = threading.Timer(timeout, expire)
        timer.daemon = True
        timer.start()
        with translated(self._to):
            try:
                channel.exec_command(command_line(framed))
            except paramiko.SSHException:
                if not expired.is_set():
                    raise
            finally:
                timer.cancel()
        if expired.is_set():
            raise timed_out(command, self.where, timeout)

    def unfinished(self, one: Running, status: int) -> RemoteError:
        """See FramedTransport.unfinished."""
        assert isinstance(one.session, ChannelSession)  # noqa: S101 (`running` made it)
        broken = self._broken(one.session.channel) if status < 0 else None
        return broken or super().unfinished(one, status)

    def _broken(self, channel: paramiko.Channel) -> ConnectionFailed | None:
        """The error of a connection that broke; None if it is open."""
        connection = channel.get_transport()
        if any(link.sock.is_silent for link in self._links if link.connection is connection):
            return ConnectionFailed(
                f"nothing arrived from {self.where} for {SILENCE:g} seconds",
                "Check the network, and try again.",
            )
        # paramiko closes the channels of a broken connection before it calls that inactive.
        if not (connection.is_active() and connection.saved_exception is None):
            return ConnectionBroke(f"the connection to {self.where} broke", "Try again.")
        return None


def connect(to: Destination, prompt: Prompt | None = None) -> SshTransport:
    """Log in; `prompt` reads passwords and codes, and is None without a terminal.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: see errors.py.
    """
    with contextlib.ExitStack() as resources:
        return SshTransport(logged_in(to, prompt, resources), to, resources.pop_all())
    raise AssertionError  # pragma: no cover (an ExitStack suppresses nothing)


def _close(channel: paramiko.Channel) -> None:
    with contextlib.suppress(*_BROKEN):
        channel.close()
