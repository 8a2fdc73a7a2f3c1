"""SSH through paramiko: one login, then a channel for each command."""

import contextlib
import logging
import shlex
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import paramiko

from slurmgen.errors import CommandFailed, ConnectionFailed, RemoteError
from slurmgen.remote import host_keys
from slurmgen.remote.login import Ask, log_in
from slurmgen.remote.ssh_config import Destination
from slurmgen.remote.ssh_errors import translated
from slurmgen.remote.transport import Completed, chunks, failed, timed_out

CONNECT_TIMEOUT = 20.0
"Seconds for the network connection and for the handshake, each."
ANSWER_TIMEOUT = 120.0
"Seconds for one answer to the host; a person may have to fetch a code first."
KEEPALIVE = 30
"Seconds of silence after which a sign of life is sent, for firewalls that forget."

# Without a handler Python prints paramiko's warnings, tracebacks included.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_BROKEN = (OSError, EOFError, paramiko.SSHException)
"What paramiko raises when it cannot send."


class SshTransport:
    """Runs commands over one SSH connection, which `connect` made."""

    shell = ("bash", "-lc")

    def __init__(
        self, connection: paramiko.Transport, to: Destination, resources: contextlib.ExitStack
    ) -> None:
        self._connection = connection
        self._to = to
        self._resources = resources
        self.where = to.alias

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        with (
            ThreadPoolExecutor(2) as pool,
            self._opened(argv, timeout) as channel,
            _ends(channel, timeout) as late,
        ):
            stdout = pool.submit(_drain, channel.recv)
            stderr = pool.submit(_drain, channel.recv_stderr)
            _feed(channel, input)
            completed = Completed(channel.recv_exit_status(), stdout.result(), stderr.result())
        if completed.returncode >= 0:
            return completed
        raise timed_out(argv, self.where, timeout) if late.is_set() else self._lost(argv)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        with self._opened(argv, timeout) as channel:
            channel.settimeout(timeout)
            try:
                while chunk := channel.recv(65536):
                    yield chunk
            except TimeoutError:
                raise timed_out(argv, self.where, timeout) from None
            status = channel.recv_exit_status()
            if status < 0:
                raise self._lost(argv)
            if status:
                raise failed(argv, self.where, status, _drain(channel.recv_stderr))

    def close(self) -> None:
        """End the connection, and the ProxyCommand if there was one."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _opened(self, argv: Sequence[str], timeout: float) -> Iterator[paramiko.Channel]:
        """A channel in which the command runs; closed with the block."""
        with _named(self._to):
            channel = self._connection.open_session(timeout=timeout)
        try:
            self._execute(channel, argv, timeout)
            yield channel
        finally:
            _close(channel)

    def _execute(self, channel: paramiko.Channel, argv: Sequence[str], timeout: float) -> None:
        with _named(self._to), _ends(channel, timeout) as late:
            try:
                channel.exec_command(shlex.join(argv))
            except paramiko.SSHException:
                if not late.is_set():
                    raise
        if late.is_set():
            raise timed_out(argv, self.where, timeout)

    def _lost(self, argv: Sequence[str]) -> RemoteError:
        """The error for a command that ended without an exit status."""
        if self._connection.is_active():
            return CommandFailed(
                f"{argv[0]} was ended by a signal on {self.where}", "See whether memory ran out."
            )
        return ConnectionFailed(f"the connection to {self.where} broke", "Try again.")


def connect(to: Destination, ask: Ask | None = None) -> SshTransport:
    """Log in; `ask` is None where there is no terminal to ask for a password on.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: as they say.
    """
    with contextlib.ExitStack() as resources:
        with _named(to):
            connection = _connection(to, resources)
            _shake_hands(connection, to)
            log_in(connection, to, ask)
        connection.set_keepalive(KEEPALIVE)
        return SshTransport(connection, to, resources.pop_all())
    raise AssertionError  # pragma: no cover (an ExitStack swallows nothing)


def _connection(to: Destination, resources: contextlib.ExitStack) -> paramiko.Transport:
    sock = resources.enter_context(_socket(to, resources))
    connection = paramiko.Transport(sock)
    resources.callback(connection.close)
    connection.banner_timeout = connection.handshake_timeout = CONNECT_TIMEOUT
    connection.auth_timeout = ANSWER_TIMEOUT
    return connection


def _socket(to: Destination, resources: contextlib.ExitStack) -> socket.socket:
    if not to.proxy_command:
        return socket.create_connection((to.host, to.port), CONNECT_TIMEOUT)
    ours, theirs = socket.socketpair()
    with theirs:
        # A person's own command from ssh_config, run by a shell as OpenSSH runs it.
        argv = ["/bin/sh", "-c", f"exec {to.proxy_command}"]
        resources.callback(
            _end,
            subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True),
        )
    return ours


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _shake_hands(connection: paramiko.Transport, to: Destination) -> None:
    keys = host_keys.known(to)
    options = connection.get_security_options()
    options.key_types = keys.algorithms(options.key_types)
    connection.start_client(timeout=CONNECT_TIMEOUT)
    host_keys.check(connection.get_remote_server_key(), keys, to)


def _named(to: Destination) -> contextlib.AbstractContextManager[None]:
    return translated(alias=to.alias, host=to.host, port=to.port, user=to.user)


@contextlib.contextmanager
def _ends(channel: paramiko.Channel, seconds: float) -> Iterator[threading.Event]:
    """Close the channel after some seconds: that wakes everybody who waits for it."""
    late = threading.Event()

    def close() -> None:
        late.set()
        _close(channel)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _feed(channel: paramiko.Channel, data: bytes | Iterable[bytes]) -> None:
    for chunk in chunks(data):
        try:
            channel.sendall(chunk)
        except _BROKEN:  # the command ended without reading all, or the link did; its exit status tells why
            break
    with contextlib.suppress(*_BROKEN):
        channel.shutdown_write()


def _close(channel: paramiko.Channel) -> None:
    """Close a channel; on a link that is gone there is nothing to tell the host."""
    with contextlib.suppress(*_BROKEN):
        channel.close()


def _drain(receive: Callable[[int], bytes]) -> bytes:
    return b"".join(iter(lambda: receive(65536), b""))
