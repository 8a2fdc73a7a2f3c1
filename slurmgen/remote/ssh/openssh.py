"""SSH through OpenSSH's own client: one login, shared by all commands.

It suits logins with a password and a one-time code: ssh itself prompts for them on the terminal.
A connection that is shared already (ControlMaster) is used, and one is kept open for the next command if
ssh_config asks for it (ControlPersist). Otherwise the connection ends with this process.
"""

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from slurmgen.errors import CommandFailed, ConnectionFailed, HostKeyError, RemoteError
from slurmgen.remote.duplex import Duplex, program
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.openssh_command import for_login, for_shared, is_shared
from slurmgen.remote.ssh.openssh_master import Master
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.terminal import ignored_interrupt, is_terminal
from slurmgen.remote.transport import (
    Closing,
    Completed,
    TimedOut,
    command_line,
    failed,
    timed_out,
    unreachable,
)

FAILED = 255
"Exit status of ssh itself; a remote command may have it too."
# Printed to standard error after a remote command's own 255, to distinguish it from ssh's.
_OWN_255 = b"slurmgen: 255 is its own\n"
_WRAPPER = '"$@"; status=$?; [ "$status" != 255 ] || echo "slurmgen: 255 is its own" >&2; exit "$status"'

_REFUSAL = 0.2
"Seconds in which ssh ends if a port is refused; later, the connection ends without a byte."
_AUTHENTICATED = re.compile(r'^Authenticated to .* using "([^"]+)"', re.MULTILINE)


class OpenSshTransport(Closing):
    """Runs commands over the shared connection that `connect` found or made."""

    shell = ("bash", "-lc")

    def __init__(
        self, to: Destination, path: str, login: str, master: Master | None, resources: contextlib.ExitStack
    ) -> None:
        self._local = LocalTransport(where=to.alias)
        self._ssh = for_shared(to, path)
        self._alias = to.alias
        self._master = master
        self._resources = resources
        self.where = to.alias
        self.login = login

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        try:
            completed = self._local.run(self._ssh_command(argv), input=input, timeout=timeout)
        except TimedOut:
            raise self._timeout_error(argv, timeout) from None
        return self._checked(argv, completed)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        try:
            completed = yield from self._local.streamed(self._ssh_command(argv), timeout=timeout)
        except TimedOut:
            raise self._timeout_error(argv, timeout) from None
        completed = self._checked(argv, completed)
        if completed.returncode:
            raise failed(argv, self.where, completed.returncode, completed.stderr)

    def attach(self, argv: Sequence[str]) -> int:
        """See Transport.attach."""
        words = self._ssh_command(argv)
        # Of an option that is given twice, the first counts.
        terminal = ["-tt"] if is_terminal() else []
        with ignored_interrupt():
            status = subprocess.run([words[0], *terminal, *words[1:]], check=False).returncode
        if status == FAILED and not is_shared(self._ssh, self._alias):
            raise self._no_status(argv, "")
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
        return program(self._ssh_command(argv))

    def close(self) -> None:
        """Close the connection, unless the user shares it."""
        self._resources.close()

    def _ssh_command(self, argv: Sequence[str]) -> list[str]:
        return [*self._ssh, "--", self._alias, command_line(["sh", "-c", _WRAPPER, "slurmgen", *argv])]

    def _checked(self, argv: Sequence[str], completed: Completed) -> Completed:
        """The command as it ended; raises the error if the connection ended instead."""
        if 0 <= completed.returncode < FAILED:
            return completed
        if completed.stderr.endswith(_OWN_255):
            return Completed(FAILED, completed.stdout, completed.stderr.removesuffix(_OWN_255))
        raise self._no_status(argv, completed.err)

    def _no_status(self, argv: Sequence[str], stderr: str) -> RemoteError:
        if not is_shared(self._ssh, self._alias):
            why = self._master.last_message() if self._master else ""
            return ConnectionFailed(f"the connection to {self.where} broke{why}", "Try again.")
        if "session request failed" in stderr:
            return CommandFailed(
                f"{self.where} opens no second session on one connection",
                "Its MaxSessions is 1: use --ssh-client paramiko.",
            )
        return CommandFailed(
            f"{argv[0]} was ended by a signal on {self.where}", "Check whether it ran out of memory."
        )

    def _timeout_error(self, argv: Sequence[str], timeout: float) -> RemoteError:
        if self._master and self._master.is_over():
            return self._no_status(argv, "")
        return timed_out(argv, self.where, timeout)


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
