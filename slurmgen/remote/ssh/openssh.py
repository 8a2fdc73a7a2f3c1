"""SSH through OpenSSH's own client: one login, shared by all commands.

It suits logins with a password and a one-time code: ssh itself prompts for them on the terminal.
A connection that is shared already (ControlMaster) is used, and one is kept open for the next command if
ssh_config asks for it (ControlPersist). Otherwise the connection ends with this process.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from slurmgen.errors import ConnectionBroke, ConnectionFailed, HostKeyError, RemoteError
from slurmgen.remote.duplex import Duplex, program
from slurmgen.remote.frame import Attached, Frame, Framed
from slurmgen.remote.local import executed, streamed
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.openssh_command import for_login, for_shared, is_shared
from slurmgen.remote.ssh.openssh_master import Master
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.ssh.sessions import Sessions
from slurmgen.remote.terminal import ignored_interrupt
from slurmgen.remote.transport import (
    COMMAND_TIMEOUT,
    NO_LIMIT,
    Closing,
    Completed,
    command_line,
    unreachable,
)

FAILED = 255
"Exit status of ssh itself; a remote command may have it too."
_REFUSED = re.compile(r"session request failed|Session open refused|open failed")
"What ssh prints if the host opens no further session on the shared connection."
_REFUSAL = 0.2
"Seconds in which ssh ends if a port is refused; later, the connection ends without a byte."
_AUTHENTICATED = re.compile(r'^Authenticated to .* using "([^"]+)"', re.MULTILINE)


class OpenSshTransport(Closing):
    """Runs commands over the shared connection that `connect` found or made."""

    shell = ("bash", "-lc")

    def __init__(
        self, to: Destination, path: str, login: str, master: Master | None, resources: contextlib.ExitStack
    ) -> None:
        self._ssh = for_shared(to, path)
        self._alias = to.alias
        self._to, self._master = to, master
        self._resources = resources
        self._sessions = Sessions(to.alias, self._ssh, self._another)
        self.where = to.alias
        self.login = login

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        framed = partial(Frame, self.where, self.shell, argv, input)
        return self._completed(argv, framed, timeout, timeout)

    def _completed(
        self, argv: Sequence[str], framed: Callable[[], Frame], timeout: float, patience: float
    ) -> Completed:
        """A command that has ended; each attempt to open a session has a frame of its own."""

        def begin(ssh: list[str]) -> tuple[Frame, int] | None:
            frame = framed()
            try:
                status = executed(self._words(ssh, frame.argv), frame, None, timeout)
            except TimeoutError:
                raise self._late(argv, frame, timeout) from None
            return None if _is_refused(frame, status) else (frame, status)

        frame, status = self._sessions.open(begin, patience)
        if completed := frame.completed:
            return completed
        raise self._no_status(argv, frame, status)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""

        def begin(ssh: list[str]) -> tuple[Frame, _Parts] | None:
            frame = Frame(self.where, self.shell, argv)
            parts = _Parts(streamed(self._words(ssh, frame.argv), frame, None, timeout))
            try:
                parts.begin()
            except TimeoutError:
                raise self._late(argv, frame, timeout) from None
            return None if _is_refused(frame, parts.status) else (frame, parts)

        frame, parts = self._sessions.open(begin, timeout)
        try:
            yield from parts
        except TimeoutError:
            raise self._late(argv, frame, timeout) from None
        finally:
            parts.close()
        if frame.out.status is None:
            raise self._no_status(argv, frame, parts.status)
        frame.check(argv, parts.status)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """See Transport.attach."""
        if not terminal:
            framed = partial(Attached, self.where, self.shell, argv)
            return self._completed(argv, framed, NO_LIMIT, COMMAND_TIMEOUT).returncode

        def begin(ssh: list[str]) -> int | None:
            # Of an option that is given twice, the first counts. Errors of the command go to the terminal.
            words = [ssh[0], "-tt", *self._words(ssh[1:], argv)]
            with ignored_interrupt():
                ended = subprocess.run(words, stderr=subprocess.PIPE, check=False, text=True)
            if ended.returncode == FAILED and _REFUSED.search(ended.stderr):
                return None
            sys.stderr.write(ended.stderr)
            return ended.returncode

        status = self._sessions.open(begin, COMMAND_TIMEOUT)
        if status == FAILED and not is_shared(self._ssh, self._alias):
            raise self._broken()
        return status if status >= 0 else 128 - status

    def dial(self, host: str, port: int) -> Duplex:
        """See Transport.dial."""
        stream = program([*self._ssh, "-W", f"[{host}]:{port}", "--", self._alias])
        if stream.ends_within(_REFUSAL):
            stream.close()
            raise unreachable(host, port, self.where, "refused, or the host allows no forwarding")
        return stream

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """See Transport.pipe."""

        def begin(ssh: list[str]) -> Duplex | None:
            frame = Frame(self.where, self.shell, argv)
            stream = Framed(program(self._words(ssh, frame.argv)), frame)
            return stream if stream.begins() else None

        return self._sessions.open(begin, COMMAND_TIMEOUT)

    def close(self) -> None:
        """Close the connection, unless the user shares it."""
        self._resources.close()

    def _words(self, ssh: Sequence[str], argv: Sequence[str]) -> list[str]:
        return [*ssh, "--", self._alias, command_line(argv)]

    def _another(self) -> list[str]:
        """The words of ssh for another connection, which is made without a prompt."""
        to = structs.replace(self._to, sharing=None)
        login = self._resources.enter_context(Login(to, None))
        other = login.transport()
        self._resources.callback(other.close)
        return other._ssh

    def _no_status(self, argv: Sequence[str], frame: Frame, status: int) -> RemoteError:
        """The error for a command whose end was not received."""
        return frame.unfinished(argv, status) if is_shared(self._ssh, self._alias) else self._broken()

    def _broken(self) -> ConnectionBroke:
        why = self._master.last_message() if self._master else ""
        return ConnectionBroke(f"the connection to {self.where} broke{why}", "Try again.")

    def _late(self, argv: Sequence[str], frame: Frame, timeout: float) -> RemoteError:
        if self._master and self._master.is_over():
            return self._broken()
        return frame.timed_out(argv, timeout)


class _Parts:
    """What a stream yields, of which the first part is read ahead; then the exit status of ssh."""

    def __init__(self, parts: Generator[bytes, None, int]) -> None:
        self._parts = parts
        self._first = b""
        self.status = 0

    def begin(self) -> None:
        """Wait for the first part, or the end."""
        try:
            self._first = next(self._parts)
        except StopIteration as end:
            self.status = end.value

    def __iter__(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
            self.status = yield from self._parts

    def close(self) -> None:
        """End ssh."""
        self._parts.close()


def _is_refused(frame: Frame, status: int) -> bool:
    """Whether the host opened no session, so that nothing was begun."""
    return status == FAILED and not frame.out.has_begun and bool(_REFUSED.search(frame.err.noise))


def connect(to: Destination, prompt: Prompt | None = None) -> OpenSshTransport:
    """Find a shared connection, or log in; `prompt` is None without a terminal.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: see errors.py.
        ConfigError: ssh is not installed.
    """
    with Login(to, prompt) as login:
        return login.transport()
    raise AssertionError  # pragma: no cover (an ExitStack suppresses nothing)


class Login:
    """A login by ssh in the background. If `transport` was not called, it ends with the block.

    `check` runs before a login, but not if a connection is shared already; it may raise an error.
    """

    def __init__(
        self, to: Destination, prompt: Prompt | None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._to = to
        self._check = check
        self._prompt = prompt
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Self:
        to, prompt = self._to, self._prompt
        shared = to.sharing
        self._master: Master | None = None
        self._path = shared.path if shared else ""
        self._is_shared = bool(shared) and is_shared(for_shared(to, self._path), to.alias)
        self._persists = bool(shared and shared.starts)
        if self._is_shared:
            return self
        self._check()
        with self._resources as resources:
            if self._persists:
                # It outlives this process, as ssh_config asks for: the next command needs no login.
                master = Master(for_login(to, prompt), to, prompt, None)
            else:
                folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="slurmgen-", dir="/tmp"))
                self._path = f"{folder}/s"
                words = for_login(to, prompt, self._path, ControlMaster="yes", ControlPersist="no")
                master = Master(words, to, prompt, Path(self._path))
            self._master = resources.enter_context(master)
            self._resources = resources.pop_all()
        return self

    def transport(self) -> OpenSshTransport:
        """Wait for the login to finish.

        Raises:
            ConnectionFailed, HostKeyError, AuthenticationFailed, ConfigError: as `connect`.
        """
        login = "the connection that you share"
        if self._master:
            with _with_fingerprint(self._to):
                found = _AUTHENTICATED.findall(self._master.log_in())
            login = found[-1] if found else "ssh"
        if self._persists:
            self._resources.close()
        own = None if self._persists else self._master
        return OpenSshTransport(self._to, self._path, login, own, self._resources.pop_all())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)


@contextlib.contextmanager
def _with_fingerprint(to: Destination) -> Iterator[None]:
    """If ssh refuses a host key without printing it, add it to the error with the line for known_hosts."""
    try:
        yield
    except HostKeyError as error:
        from slurmgen.remote.ssh.jump_hosts import check_host_keys

        known: tuple[Destination, ...] = ()
        with contextlib.suppress(ConnectionFailed):
            known = check_host_keys(to)
        if not known or to in known:
            raise
        names = " and ".join(host.alias for host in known)
        raise HostKeyError(
            f"{error.fact}; it is not that of {names}, which known_hosts has", error.hint
        ) from None
