"""SSH through paramiko: one login, then a channel for each command."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import paramiko

from slurmgen.errors import ConnectionBroke, ConnectionFailed, RemoteError
from slurmgen.remote.duplex import Duplex
from slurmgen.remote.frame import BEGIN_TIMEOUT, Attached, Frame, Framed, Output
from slurmgen.remote.local import END_TIMEOUT
from slurmgen.remote.ssh import jump_hosts
from slurmgen.remote.ssh import terminal as ssh_terminal
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.errors import translated
from slurmgen.remote.ssh.keepalive import SILENCE
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.ssh.sessions import Sessions
from slurmgen.remote.ssh.stream import Stream
from slurmgen.remote.transport import (
    COMMAND_TIMEOUT,
    NO_LIMIT,
    Closing,
    Completed,
    command_line,
    ended_by_signal,
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
        self._links = [link]
        self._opening = threading.Lock()
        "paramiko keeps one error for all channels that it opens at a time."
        self._to, self._resources = to, resources
        self._sessions = Sessions(to.alias, link, self._another)
        self.where = to.alias
        self.login = link.login
        self._names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user, "ssh": to.ssh}

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        return self._completed(argv, Frame(self.where, self.shell, argv, input), timeout, timeout)

    def _completed(self, argv: Sequence[str], frame: Frame, timeout: float, patience: float) -> Completed:
        """A command that has ended, in a session that opens within `patience`."""
        with (
            ThreadPoolExecutor(2) as pool,
            self._opened(argv, frame, patience) as channel,
            _time_limit(channel, timeout) as expired,
            _time_limit(channel, min(timeout, BEGIN_TIMEOUT), frame) as late,
        ):
            stdout = pool.submit(_drain, channel, channel.recv, frame, frame.out)
            stderr = pool.submit(_drain, channel, channel.recv_stderr, frame, frame.err)
            _feed(channel, frame.input())
            stdout.result(), stderr.result()
            status = _exit_status(channel, frame)
        if completed := frame.completed:
            return completed
        limit = timeout if expired.is_set() or late.is_set() else None
        raise self._unfinished(argv, frame, channel, status, limit)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        frame = Frame(self.where, self.shell, argv)
        with ThreadPoolExecutor(1) as pool, self._opened(argv, frame, timeout) as channel:
            channel.settimeout(timeout)
            _feed(channel, ())
            # Output and errors share the channel's window: unread errors would stop the output.
            errors = pool.submit(_drain, channel, channel.recv_stderr, frame, frame.err)
            begun = time.monotonic()
            try:
                while frame.out.status is None and (chunk := channel.recv(65536)):
                    if known := frame.out.add(chunk):
                        yield known
                    if not frame.out.has_begun and time.monotonic() - begun > timeout:
                        raise TimeoutError
            except TimeoutError:
                raise frame.timed_out(argv, timeout) from None
            except _BROKEN:
                raise self._no_status(argv, frame, channel, -1) from None
            with _time_limit(channel, timeout) as expired:  # a host may send neither an exit status nor EOF
                if frame.out.status != 0:
                    errors.result()
                status = _exit_status(channel, frame)
            if frame.out.status is None:
                raise self._unfinished(argv, frame, channel, status, timeout if expired.is_set() else None)
            frame.check(argv, status)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """See Transport.attach."""
        if not terminal:
            frame = Attached(self.where, self.shell, argv)
            return self._completed(argv, frame, NO_LIMIT, COMMAND_TIMEOUT).returncode
        channel = self._session(COMMAND_TIMEOUT)
        try:
            status = ssh_terminal.attach(channel, lambda: self._execute(channel, argv, COMMAND_TIMEOUT))
        except _BROKEN:
            raise self._no_status(argv, None, channel, -1) from None
        finally:
            _close(channel)
        if status < 0:
            raise self._no_status(argv, None, channel, -1)
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
        frame = Frame(self.where, self.shell, argv)
        channel = self._session(COMMAND_TIMEOUT)
        self._execute(channel, frame.argv, COMMAND_TIMEOUT)
        return Framed(Stream(channel), frame)

    def close(self) -> None:
        """Close the connection, those to its jump hosts, and the ProxyCommand if there is one."""
        self._resources.close()

    def _another(self) -> jump_hosts.Link:
        """Another connection, made without a prompt."""
        link = jump_hosts.logged_in(self._to, None, self._resources)
        self._links.append(link)
        return link

    def _session(self, timeout: float) -> paramiko.Channel:
        """A channel for a command."""

        def begin(link: jump_hosts.Link) -> paramiko.Channel | None:
            try:
                with self._opening:
                    return link.connection.open_session(timeout=timeout)
            except paramiko.ChannelException:
                return None

        with translated(**self._names):
            return self._sessions.open(begin, timeout)
        raise AssertionError  # pragma: no cover (`translated` suppresses no error)

    @contextlib.contextmanager
    def _opened(self, argv: Sequence[str], frame: Frame, timeout: float) -> Iterator[paramiko.Channel]:
        """A channel in which the command runs; closed with the block."""
        channel = self._session(timeout)
        try:
            self._execute(channel, frame.argv, timeout, argv)
            yield channel
        finally:
            frame.give_up()
            _close(channel)

    def _execute(
        self,
        channel: paramiko.Channel,
        framed: Sequence[str],
        timeout: float,
        argv: Sequence[str] = (),
    ) -> None:
        with translated(**self._names), _time_limit(channel, timeout) as expired:
            try:
                channel.exec_command(command_line(framed))
            except paramiko.SSHException:
                if not expired.is_set():
                    raise
        if expired.is_set():
            raise timed_out(argv or framed, self.where, timeout)

    def _unfinished(
        self,
        argv: Sequence[str],
        frame: Frame,
        channel: paramiko.Channel,
        status: int,
        expired: float | None,
    ) -> RemoteError:
        """The error for a command whose end was not received; `expired` is its timeout, if that is why."""
        return frame.timed_out(argv, expired) if expired else self._no_status(argv, frame, channel, status)

    def _no_status(
        self, argv: Sequence[str], frame: Frame | None, channel: paramiko.Channel, status: int
    ) -> RemoteError:
        """The error for a command that ended without an exit status."""
        connection = channel.get_transport()
        if any(link.keepalive.timed_out for link in self._links if link.connection is connection):
            return ConnectionFailed(
                f"nothing arrived from {self.where} for {SILENCE:g} seconds",
                "Check the network, and try again.",
            )
        # paramiko closes the channels of a broken connection before it calls that inactive.
        if status < 0 and not (connection.is_active() and connection.saved_exception is None):
            return ConnectionBroke(f"the connection to {self.where} broke", "Try again.")
        return frame.unfinished(argv, status) if frame else ended_by_signal(argv, self.where)


def connect(to: Destination, prompt: Prompt | None = None) -> SshTransport:
    """Log in; `prompt` reads passwords and codes, and is None without a terminal.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: see errors.py.
    """
    with contextlib.ExitStack() as resources:
        return SshTransport(jump_hosts.logged_in(to, prompt, resources), to, resources.pop_all())
    raise AssertionError  # pragma: no cover (an ExitStack suppresses nothing)


def _drain(channel: paramiko.Channel, receive: Callable[[int], bytes], frame: Frame, output: Output) -> None:
    """Keep everything that arrives. If that is too much, close the channel, which ends every wait for it."""
    try:
        while output.status is None and (part := _received(channel, receive)):
            frame.add(output, part)
    except (RemoteError, OSError):  # too much, or the output of this process has no reader
        _close(channel)
        raise
    finally:
        if output is frame.out:
            frame.give_up()


def _exit_status(channel: paramiko.Channel, frame: Frame) -> int:
    """The exit status of a channel, -1 if there is none; that of a command has arrived before."""
    channel.status_event.wait(END_TIMEOUT if frame.out.status is not None else None)
    return channel.exit_status


def _received(channel: paramiko.Channel, receive: Callable[[int], bytes]) -> bytes:
    """The next part of a stream, however long it takes: only standard output has a time limit."""
    while True:
        try:
            return receive(65536)
        except TimeoutError:
            continue
        except _BROKEN:  # its exit status reports why
            _close(channel)
            return b""


@contextlib.contextmanager
def _time_limit(
    channel: paramiko.Channel, seconds: float, frame: Frame | None = None
) -> Iterator[threading.Event]:
    """Close the channel after some seconds, which ends every wait; with a frame, only if it has not begun."""
    expired = threading.Event()

    def close() -> None:
        if frame and frame.out.has_begun:
            return
        expired.set()
        _close(channel)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _feed(channel: paramiko.Channel, parts: Iterable[bytes]) -> None:
    for chunk in parts:
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
