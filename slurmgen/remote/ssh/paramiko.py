"""SSH through paramiko: one login, then a channel for each command."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import paramiko

from slurmgen.errors import CommandFailed, ConnectionFailed, RemoteError
from slurmgen.remote.ssh import jump_hosts
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.errors import translated
from slurmgen.remote.ssh.keepalive import SILENCE
from slurmgen.remote.ssh.prompt import Ask
from slurmgen.remote.transport import (
    Closing,
    Completed,
    Reply,
    ReplyTooLong,
    chunks,
    command_line,
    failed,
    timed_out,
)

_BROKEN = (OSError, EOFError, paramiko.SSHException)
"What paramiko raises when it cannot send."


class SshTransport(Closing):
    """Runs commands over one SSH connection, which `connect` made."""

    shell = ("bash", "-lc")

    def __init__(self, link: jump_hosts.Link, to: Destination, resources: contextlib.ExitStack) -> None:
        self._connection = link.connection
        self._pulse = link.pulse
        self._resources = resources
        self.where = to.alias
        self.login = link.login
        self._names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user, "ssh": to.ssh}

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        with (
            ThreadPoolExecutor(2) as pool,
            self._opened(argv, timeout) as channel,
            _ends(channel, timeout) as late,
        ):
            stdout = pool.submit(self._drain, channel, channel.recv)
            stderr = pool.submit(self._drain, channel, channel.recv_stderr)
            _feed(channel, input)
            completed = Completed(channel.recv_exit_status(), stdout.result(), stderr.result())
        if completed.returncode >= 0:
            return completed
        raise timed_out(argv, self.where, timeout) if late.is_set() else self._lost(argv)

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
                raise self._lost(argv) from None
            with _ends(channel, timeout) as late:  # a host may send neither an exit status nor an end
                status = channel.recv_exit_status()
                stderr = errors.result() if status else b""
            if late.is_set():
                raise timed_out(argv, self.where, timeout)
            if status < 0:
                raise self._lost(argv)
            if status:
                raise failed(argv, self.where, status, stderr)

    def close(self) -> None:
        """End the connection, those to the hosts before, and the ProxyCommand if there was one."""
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
        with translated(**self._names), _ends(channel, timeout) as late:
            try:
                channel.exec_command(command_line(argv))
            except paramiko.SSHException:
                if not late.is_set():
                    raise
        if late.is_set():
            raise timed_out(argv, self.where, timeout)

    def _drain(self, channel: paramiko.Channel, receive: Callable[[int], bytes]) -> bytes:
        """All that comes. If that is too much, the channel is closed, which wakes all who wait for it."""
        reply = Reply(self.where)
        try:
            while part := _received(receive):
                reply.add(part)
        except ReplyTooLong:
            _close(channel)
            raise
        except _BROKEN:  # its exit status tells why
            _close(channel)
        return bytes(reply)

    def _lost(self, argv: Sequence[str]) -> RemoteError:
        """The error for a command that ended without an exit status."""
        if self._pulse.stopped:
            return ConnectionFailed(
                f"nothing came from {self.where} for {SILENCE:g} seconds", "Is the network up? Try again."
            )
        # paramiko closes the channels of a broken connection before it calls that inactive.
        if self._connection.is_active() and self._connection.saved_exception is None:
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
        return SshTransport(jump_hosts.logged_in(to, ask, resources), to, resources.pop_all())
    raise AssertionError  # pragma: no cover (an ExitStack swallows nothing)


def _received(receive: Callable[[int], bytes]) -> bytes:
    """The next part of a stream, however long it takes: only standard output has a time limit."""
    while True:
        with contextlib.suppress(TimeoutError):
            return receive(65536)


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
