"""SSH through OpenSSH's own client: one login, shared by all commands.

For people whose login is a password and a one-time code: ssh asks them itself, on the terminal.
A connection that they share already (ControlMaster) is used, and one is left behind for the next
command where their ssh_config says so (ControlPersist). Otherwise one is made that ends with us.
"""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from slurmgen.errors import CommandFailed, ConfigError, ConnectionFailed, HostKeyError, RemoteError
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.openssh_master import Master
from slurmgen.remote.ssh.prompt import Ask
from slurmgen.remote.transport import Closing, Completed, TimedOut, command_line, failed, timed_out

FAILED = 255
"Exit status of ssh itself; a command over there may have it too."
# Said on standard error by a command's own 255, which tells it from ssh's.
_OWN = b"slurmgen: 255 is its own\n"
_TOLD = '"$@"; status=$?; [ "$status" != 255 ] || echo "slurmgen: 255 is its own" >&2; exit "$status"'

_ALWAYS = {
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "20",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "NoHostAuthenticationForLocalhost": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "15",
    # An unknown host is refused, as everywhere in slurmgen: known_hosts is a person's.
    "StrictHostKeyChecking": "yes",
}
# What a host on the way reports is kept for the message, such as a host key that is not known.
_ON_THE_WAY = {"LogLevel": "INFO"}
# Over a shared connection. If that is gone, a ProxyCommand that fails keeps ssh from making another one.
_SHARED = {"BatchMode": "yes", "ControlMaster": "no", "LogLevel": "ERROR", "ProxyCommand": "false"}
_ALIVE_TIMEOUT = 10.0
_AUTHENTICATED = re.compile(r'^Authenticated to .* using "([^"]+)"', re.MULTILINE)


class OpenSshTransport(Closing):
    """Runs commands over one shared connection, which `connect` found or made."""

    shell = ("bash", "-lc")

    def __init__(
        self, to: Destination, path: str, login: str, master: Master | None, resources: contextlib.ExitStack
    ) -> None:
        self._here = LocalTransport(where=to.alias)
        self._ssh = ssh(to, path, **_SHARED)
        self._alias = to.alias
        self._master = master
        self._resources = resources
        self.where = to.alias
        self.login = login

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        try:
            completed = self._here.run(self._over_there(argv), input=input, timeout=timeout)
        except TimedOut:
            raise self._late(argv, timeout) from None
        return self._judged(argv, completed)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        try:
            completed = yield from self._here.streamed(self._over_there(argv), timeout=timeout)
        except TimedOut:
            raise self._late(argv, timeout) from None
        completed = self._judged(argv, completed)
        if completed.returncode:
            raise failed(argv, self.where, completed.returncode, completed.stderr)

    def close(self) -> None:
        """End the connection, unless it is one that people share."""
        self._resources.close()

    def _over_there(self, argv: Sequence[str]) -> list[str]:
        return [*self._ssh, "--", self._alias, command_line(["sh", "-c", _TOLD, "slurmgen", *argv])]

    def _judged(self, argv: Sequence[str], completed: Completed) -> Completed:
        """A command's own end, or the error for the end of the connection."""
        if 0 <= completed.returncode < FAILED:
            return completed
        if completed.stderr.endswith(_OWN):
            return Completed(FAILED, completed.stdout, completed.stderr.removesuffix(_OWN))
        raise self._lost(argv, completed.err)

    def _lost(self, argv: Sequence[str], said: str) -> RemoteError:
        if not is_shared(self._ssh, self._alias):
            why = self._master.last_words() if self._master else ""
            return ConnectionFailed(f"the connection to {self.where} broke{why}", "Try again.")
        if "session request failed" in said:
            return CommandFailed(
                f"{self.where} opens no second session on one connection",
                "Its MaxSessions is 1: say --ssh-client paramiko.",
            )
        return CommandFailed(
            f"{argv[0]} was ended by a signal on {self.where}", "See whether memory ran out."
        )

    def _late(self, argv: Sequence[str], timeout: float) -> RemoteError:
        if self._master and self._master.is_over():
            return self._lost(argv, "")
        return timed_out(argv, self.where, timeout)


def connect(to: Destination, ask: Ask | None = None) -> OpenSshTransport:
    """Find a shared connection, or log in; `ask` is None where there is no terminal to ask on.

    Raises:
        ConnectionFailed, HostKeyError, AuthenticationFailed: as they say.
        ConfigError: there is no ssh here.
    """
    with Login(to, ask) as login:
        return login.transport()
    raise AssertionError  # pragma: no cover (an ExitStack swallows nothing)


class Login:
    """A login under way: ssh does it, while we may do something else. What nobody took ends with it."""

    def __init__(self, to: Destination, ask: Ask | None) -> None:
        self._to = to
        self._ask = ask
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Self:
        to, ask = self._to, self._ask
        shared = to.sharing
        self._master: Master | None = None
        self._path = shared.path if shared else ""
        self._is_shared = bool(shared) and is_shared(ssh(to, self._path, **_SHARED), to.alias)
        self._leaves = bool(shared and shared.starts)
        if self._is_shared:
            return self
        with self._resources as resources:
            if self._leaves:
                # Theirs outlives us, as their ssh_config wants it: the next command needs no login.
                master = Master(_login(to, ask), to, ask, None)
            else:
                folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="slurmgen-", dir="/tmp"))
                self._path = f"{folder}/s"
                words = _login(to, ask, self._path, ControlMaster="yes", ControlPersist="no")
                master = Master(words, to, ask, Path(self._path))
            self._master = resources.enter_context(master)
            self._resources = resources.pop_all()
        return self

    def transport(self) -> OpenSshTransport:
        """Wait until we are in.

        Raises:
            ConnectionFailed, HostKeyError, AuthenticationFailed, ConfigError: as `connect` says.
        """
        login = "the connection that you share"
        if self._master:
            with _fingerprint_told(self._to):
                found = _AUTHENTICATED.findall(self._master.log_in())
            login = found[-1] if found else "ssh"
        if self._leaves:
            self._resources.close()
        own = None if self._leaves else self._master
        return OpenSshTransport(self._to, self._path, login, own, self._resources.pop_all())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)


@contextlib.contextmanager
def _fingerprint_told(to: Destination) -> Iterator[None]:
    """Where ssh refuses a host's key without showing it, tell it with the line to add."""
    try:
        yield
    except HostKeyError as error:
        from slurmgen.remote.ssh.jump_hosts import check_host_keys

        seen: tuple[Destination, ...] = ()
        with contextlib.suppress(ConnectionFailed):
            seen = check_host_keys(to)
        if not seen or to in seen:
            raise
        names = " and ".join(hop.alias for hop in seen)
        raise HostKeyError(
            f"{error.fact}; it is not that of {names}, which known_hosts has", error.hint
        ) from None


def _login(to: Destination, ask: Ask | None, path: str | None = None, **options: str) -> list[str]:
    batch = "no" if ask else "yes"
    return ssh(to, path, BatchMode=batch, LogLevel="VERBOSE", **_proxy(to), **options)


def _proxy(to: Destination) -> dict[str, str]:
    """ssh's options for the way to a host: the command that leads there, with our options for each ssh in it.

    ssh would give the ssh that it starts for ProxyJump none of them, so that ssh_config could accept
    any host key there.
    """
    if to.jump:
        words = [*ssh(to.jump, **_ON_THE_WAY, **_proxy(to.jump)), "-W", f"[{to.host}]:{to.port}"]
        command = command_line([*words, "--", to.jump.alias])
        return {"ProxyCommand": command.replace("%", "%%"), "ProxyUseFdpass": "no"}
    return {"ProxyCommand": to.proxy_command.replace("%", "%%")} if to.proxy_command else {}


def ssh(to: Destination, path: str | None = None, **options: str) -> list[str]:
    """The words of `ssh`, up to the host; `path` is where a shared connection is.

    Raises:
        ConfigError: there is none here.
    """
    program = shutil.which("ssh")
    if program is None:
        raise ConfigError("there is no ssh on this machine", "Install OpenSSH, or say --ssh-client paramiko.")
    file = ["-F", str(to.config_file)] if to.config_file else []
    words = [f"-o{name}={value}" for name, value in (_ALWAYS | options).items()]
    shared = ["-S", path.replace("%", "%%")] if path else []
    return [program, *file, *to.asked.options, *shared, *words]


def is_shared(words: Sequence[str], alias: str) -> bool:
    """Whether the connection is up that the ControlPath among the words is for."""
    try:
        return (
            LocalTransport().run([*words, "-O", "check", "--", alias], timeout=_ALIVE_TIMEOUT).returncode == 0
        )
    except TimedOut:
        return False
