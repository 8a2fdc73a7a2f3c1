"""SSH through paramiko: one login, then a channel for each command."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import paramiko

from slurmgen.errors import CommandFailed, ConnectionFailed, RemoteError
from slurmgen.remote.duplex import Duplex
from slurmgen.remote.ssh import jump_hosts, terminal
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.errors import translated
from slurmgen.remote.ssh.keepalive import SILENCE
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.ssh.stream import Stream
from slurmgen.remote.transport import (
    COMMAND_TIMEOUT,
    Closing,
    Completed,
    Reply,
    ReplyTooLong,
    chunks,
    command_line,
    failed,
    timed_out,
    unreachable,
)

_BROKEN = (OSError, EOFError, paramiko.SSHException)
"What paramiko raises on a broken connection."


class SshTransport(Closing):
    """Runs commands over the SSH connection that `connect` made."""

    shell = ("bash", "-lc")

    def __init__(self, link: jump_hosts.Link, to: Destination, resources: contextlib.ExitStack) -> None:
        self._connection = link.connection
        self._keepalive = link.keepalive
        self._resources = resources
        self.where = to.alias
        self.login = link.login
        self._names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user, "ssh": to.ssh}

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        with (
            ThreadPoolExecutor(2) as pool,
            self._opened(argv, timeout) as channel,
            _time_limit(channel, timeout) as expired,
        ):
            stdout = pool.submit(self._drain, channel, channel.recv)
            stderr = pool.submit(self._drain, channel, channel.recv_stderr)
            _feed(channel, input)
            completed = Completed(channel.recv_exit_status(), stdout.result(), stderr.result())
        if completed.returncode >= 0:
            return completed
        raise timed_out(argv, self.where, timeout) if expired.is_set() else self._no_status(argv)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        with ThreadPoolExecutor(1) as pool, self._opened(argv, timeout) as channel:
            channel.settimeout(timeout)
            # Output and errors share the channel's window: unread errors would stop the output.
            errors = pool.submit(self._drain, channel, channel.recv_stderr)
            try:
                while chunk := channel.recv(65536):
                    yield chunk
            except TimeoutError:
                raise timed_out(argv, self.where, timeout) from None
            except _BROKEN:
                raise self._no_status(argv) from None
            with _time_limit(channel, timeout) as expired:  # a host may send neither an exit status nor EOF
                status = channel.recv_exit_status()
                stderr = errors.result() if status else b""
            if expired.is_set():
                raise timed_out(argv, self.where, timeout)
            if status < 0:
                raise self._no_status(argv)
            if status:
                raise failed(argv, self.where, status, stderr)

    def attach(self, argv: Sequence[str]) -> int:
        """See Transport.attach."""
        with translated(**self._names):
            channel = self._connection.open_session(timeout=COMMAND_TIMEOUT)
        try:
            status = terminal.attach(channel, lambda: self._execute(channel, argv, COMMAND_TIMEOUT))
        except _BROKEN:
            raise self._no_status(argv) from None
        finally:
            _close(channel)
        if status < 0:
            raise self._no_status(argv)
        return status

    def dial(self, host: str, port: int) -> Duplex:
        """See Transport.dial."""
        with translated(**self._names):
            try:
                channel = self._connection.open_channel(
                    "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=COMMAND_TIMEOUT
                )
            except paramiko.ChannelException as error:
                raise unreachable(host, port, self.where, error.text) from None
        return Stream(channel)

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """See Transport.pipe."""
        with translated(**self._names):
            channel = self._connection.open_session(timeout=COMMAND_TIMEOUT)
        self._execute(channel, argv, COMMAND_TIMEOUT)
        return Stream(channel)

    def close(self) -> None:
        """Close the connection, those to its jump hosts, and the ProxyCommand if there is one."""
        self._resources.close()

    @contextlib.contextmanager
    def _opened(self, argv: Sequence[str], timeout: float) -> Iterator[paramiko.Channel]:
        """A channel in which the command runs; closed with the block."""
        with translated(**self._names):
            channel = self._connection.open_session(timeout=timeout)
        try:
            self._execute(channel, argv, timeout)
            yield channel
        finally:
            _close(channel)

    def _execute(self, channel: paramiko.Channel, argv: Sequence[str], timeout: float) -> None:
        with translated(**self._names), _time_limit(channel, timeout) as expired:
            try:
                channel.exec_command(command_line(argv))
            except paramiko.SSHException:
                if not expired.is_set():
                    raise
        if expired.is_set():
            raise timed_out(argv, self.where, timeout)

    def _drain(self, channel: paramiko.Channel, receive: Callable[[int], bytes]) -> bytes:
        """Everything that arrives. If that is too much, close the channel, which ends every wait for it."""
        reply = Reply(self.where)
        try:
            while part := _received(receive):
                reply.add(part)
        except ReplyTooLong:
            _close(channel)
            raise
        except _BROKEN:  # its exit status reports why
            _close(channel)
        return bytes(reply)

    def _no_status(self, argv: Sequence[str]) -> RemoteError:
        """The error for a command that ended without an exit status."""
        if self._keepalive.timed_out:
            return ConnectionFailed(
                f"nothing arrived from {self.where} for {SILENCE:g} seconds",
                "Check the network, and try again.",
            )
        # paramiko closes the channels of a broken connection before it calls that inactive.
        if self._connection.is_active() and self._connection.saved_exception is None:
            return CommandFailed(
                f"{argv[0]} was ended by a signal on {self.where}", "Check whether it ran out of memory."
            )
        return ConnectionFailed(f"the connection to {self.where} broke", "Try again.")


def connect(to: Destination, prompt: Prompt | None = None) -> SshTransport:
    """Log in; `prompt` reads passwords and codes, and is None without a terminal.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: see errors.py.
    """
    with contextlib.ExitStack() as resources:
        return SshTransport(jump_hosts.logged_in(to, prompt, resources), to, resources.pop_all())
    raise AssertionError  # pragma: no cover (an ExitStack suppresses nothing)


def _received(receive: Callable[[int], bytes]) -> bytes:
    """The next part of a stream, however long it takes: only standard output has a time limit."""
    while True:
        with contextlib.suppress(TimeoutError):
            return receive(65536)


@contextlib.contextmanager
def _time_limit(channel: paramiko.Channel, seconds: float) -> Iterator[threading.Event]:
    """Close the channel after some seconds, which ends every wait for it."""
    expired = threading.Event()

    def close() -> None:
        expired.set()
        _close(channel)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _feed(channel: paramiko.Channel, data: bytes | Iterable[bytes]) -> None:
    for chunk in chunks(data):
        try:
            channel.sendall(chunk)
        except _BROKEN:  # the command or the connection ended; the exit status reports which
            break
    with contextlib.suppress(*_BROKEN):
        channel.shutdown_write()


def _close(channel: paramiko.Channel) -> None:
    """Close a channel, also that of a broken connection."""
    with contextlib.suppress(*_BROKEN):
        channel.close()
