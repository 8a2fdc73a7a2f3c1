"""Commands over the ssh program, with a shared connection."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct, structs

from slurmgen import errors
from slurmgen.errors import ConfigError, ConnectionBroke, ConnectionFailed, HostKeyError, RemoteError
from slurmgen.remote.frame import Attached, Frame, Framed, FramedTransport, Running
from slurmgen.remote.local import Process, ignored_interrupt
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.prompt import Prompt, restore_terminal_at_exit
from slurmgen.remote.ssh.sessions import Sessions
from slurmgen.remote.transport import (
    COMMAND_TIMEOUT,
    NO_LIMIT,
    Duplex,
    command_line,
    program,
    unreachable,
)
from slurmgen.text import visible

LOGIN_TIMEOUT = 300.0
"Seconds for a login; the user may have to look up a code."
UNATTENDED_TIMEOUT = 60.0
"Seconds for a login without a terminal."
_MESSAGE_TIMEOUT = 1.0
"Seconds until the message of a successful login is read. There is none if another ssh made the connection."
_END_TIMEOUT = 5.0
# ssh ignores ^C, which slurmgen handles: it ends ssh, or goes on to find out the state of a job.
_IGNORES_INTERRUPT = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "ssh"]
# If slurmgen is killed, the pipe ends without a line: this ends ssh, and removes the folder of its socket.
_WATCHED = (
    *("/bin/sh", "-c"),
    "trap '' INT HUP; socket=$1 n=0; shift; exec 4<&0 </dev/null; { read -r over <&4 || { kill \"$$\"; "
    'while kill -0 "$$" && [ "$((n += 1))" -lt 50 ]; do sleep 0.1; done; '
    'rm -f "$socket"; rmdir "${socket%/*}"; }; } >/dev/null 2>&1 & '
    'exec "$@" 4<&-',
    "ssh",
)
_POLL = 0.002, 0.1
"Seconds between two checks for the socket, which ssh makes after the login; the longer it takes, the more."

_SUMMARY = re.compile(r"Transferred: |Bytes per second: |Authenticated to ")
"What ssh prints at the beginning and the end of any connection."
_CLOSED = re.compile("Connection (?:closed|reset) by")


class Failure(Struct, frozen=True):
    """The error for a message of ssh; its texts are formatted with alias, host, port, user and ssh."""

    pattern: str
    "A regular expression."
    kind: type[errors.SlurmgenError]
    fact: str
    hint: str


_TRY = "`{ssh}` must work first."
_NETWORK = f"Check the host name and your network (is a VPN needed?); {_TRY}"
ERRORS = (
    Failure(
        "IDENTIFICATION HAS CHANGED",
        errors.HostKeyError,
        "THE HOST KEY OF {alias} OR OF A HOST BEFORE IT HAS CHANGED. "
        "This may be a man-in-the-middle attack; nothing was sent",
        "Ask the site's staff whether they changed it; `{ssh}` prints the line of known_hosts.",
    ),
    Failure(
        "REVOKED HOST KEY|is marked as revoked|revoked by file",
        errors.HostKeyError,
        "the host key of {alias} is revoked",
        "Ask the site's staff.",
    ),
    Failure(
        "Host key verification failed|host key is known",
        errors.HostKeyError,
        "the host key of {alias} or of a host before it is not known",
        "Run `{ssh}` once, compare the fingerprint with the one your site publishes, and answer yes.",
    ),
    Failure(
        "[Bb]ad configuration option|bad configuration options|Can't open user config|jumphost loop",
        errors.ConfigError,
        "cannot read ssh_config",
        "Correct it, or name another file with --ssh-config.",
    ),
    Failure(
        # The last message: a wrong password may precede it. sshd says goodbye to who tries too many keys.
        # If a jump host refuses the login, ssh loses its proxy before the key exchange.
        r"(?s)\A(?!.*Permission denied \(.*\nkex_exchange_identification).*"
        r"(?:Connection (?:closed|reset) by|Broken pipe|message authentication code incorrect)[^\n]*\Z",
        errors.ConnectionBroke,
        "the connection to {alias} broke during the login",
        f"Try again; {_TRY}",
    ),
    Failure(
        "Permission denied|Too many authentication failures|No more authentication methods",
        errors.AuthenticationFailed,
        "{alias} refused the login of {user}",
        f"Check user, password and key; {_TRY}",
    ),
    Failure(
        "too long for Unix domain socket|cannot bind to path",
        errors.ConfigError,
        "the ControlPath of {alias} cannot be used",
        "Name a shorter one in ssh_config, in a folder that exists: ControlPath ~/.ssh/%C",
    ),
    Failure("timed out|Timeout", errors.ConnectionFailed, "{alias} did not reply in time", _NETWORK),
    Failure("", errors.ConnectionFailed, "cannot connect to {alias} at {host} port {port}", _NETWORK),
)
"The messages of an ssh that fails; the first that matches counts."


class Master:
    """An ssh that logs in; it ends with the block.

    With a `socket` it opens no session, and shares its connection there for as long as it runs. Without
    one, ssh_config decides whether a shared connection stays open.
    """

    def __init__(self, argv: list[str], to: Destination, prompt: Prompt | None, socket: Path | None) -> None:
        self._to = to
        self._prompt = prompt
        self._is_unattended = prompt is None
        self._socket = socket
        starter = [*_WATCHED, str(socket), *argv, "-N"] if socket else [*_IGNORES_INTERRUPT, *argv]
        self._argv = [*starter, "--", to.alias, *([] if socket else ["true"])]
        self._output: list[str] = []
        self._authenticated = threading.Event()

    def __enter__(self) -> Self:
        if self._prompt:
            with contextlib.suppress(OSError):  # there is no terminal to restore
                restore_terminal_at_exit()
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if self._socket or error:
            process.terminate()  # so that it restores the terminal, and removes its socket
            with contextlib.suppress(OSError):  # the watcher has ended too
                assert process.stdin  # noqa: S101 (it is a pipe)
                os.write(process.stdin.fileno(), b"over\n")
        try:
            process.wait(1.0 if error else _END_TIMEOUT)  # at a prompt it may ignore the signal
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(_END_TIMEOUT)
        for pipe in (process.stdin, process.stderr):
            with contextlib.suppress(OSError):
                assert pipe  # noqa: S101 (both are pipes)
                pipe.close()

    def log_in(self) -> str:
        """Wait until the connection is open; returns what ssh printed meanwhile.

        Raises:
            ConnectionFailed, HostKeyError, AuthenticationFailed, ConfigError: see errors.py.
        """
        is_open = self._wait_for_login(UNATTENDED_TIMEOUT if self._is_unattended else LOGIN_TIMEOUT)
        self._prompt = None
        if not is_open:
            self._reader.join(_END_TIMEOUT)
            raise failure(self._to, "\n".join(self._output), is_unattended=self._is_unattended)
        self._authenticated.wait(_MESSAGE_TIMEOUT)
        return "\n".join(self._output)

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def last_message(self) -> str:
        """Its last message before it ended, as the end of an error message."""
        self._reader.join(1.0)
        messages = [line for line in self._output if line and not _SUMMARY.match(line)]
        return f": {messages[-1]}" if messages else ""

    def _wait_for_login(self, seconds: float) -> bool:
        """Whether the login succeeded; if not, ssh has ended."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            if self._socket and self._socket.exists():
                return True
            if (status := self._process.poll()) is not None:
                return self._socket is None and status == 0
            time.sleep(min(max(_POLL[0], passed / 100), _POLL[1]))
        raise errors.ConnectionFailed(
            f"the login to {self._to.alias} did not finish within {seconds:g} seconds",
            _NETWORK.format(ssh=self._to.ssh),
        )

    def _read_output(self) -> None:
        """Keep what ssh prints, and show what may be for the user, such as `approve it on your phone`."""
        assert self._process.stderr  # noqa: S101 (it is a pipe)
        for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._output.append(text)
            if text.startswith("Authenticated to "):
                self._authenticated.set()
            elif self._prompt and text:
                self._prompt.show(visible(text))


def _is_dropped(to: Destination, lines: list[str]) -> bool:
    """Whether a host ended the connection at once. A ProxyCommand may fail for other reasons."""
    closed = all("exchange_identification: " in line or _CLOSED.search(line) for line in lines)
    return closed and "exchange_identification: " in "".join(lines) and not to.proxy_command


def failure(to: Destination, output: str, *, is_unattended: bool) -> errors.SlurmgenError:
    """The error for the messages of an ssh that failed."""
    names = to.names
    # With jump hosts, the last line of ssh reports only that a connection was closed.
    lines = [line for line in output.splitlines() if line.strip() and "UNKNOWN port" not in line]
    known = next(error for error in ERRORS if re.search(error.pattern, "\n".join(lines)))
    kind = known.kind
    if kind is errors.ConnectionBroke and _is_dropped(to, lines):
        kind = errors.LoginDropped
    why = f": {lines[-1]}" if lines else ""
    hint = known.hint.format(**names)
    if is_unattended and kind is errors.AuthenticationFailed:
        hint += " It may accept a password or code, but there is no terminal here to prompt for one."
    return kind(known.fact.format(**names) + why, hint)


FAILED = 255
"Exit status of ssh itself; a remote command may have it too."
_REFUSED = re.compile(r"session request failed|Session open refused|open failed")
"What ssh prints if the host opens no further session on the shared connection."
_REFUSAL = 0.2
"Seconds in which ssh ends if a port is refused; later, the connection ends without a byte."
_AUTHENTICATED = re.compile(r'^Authenticated to .* using "([^"]+)"', re.MULTILINE)


class OpenSshTransport(FramedTransport):
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

    def running(
        self, framed: Callable[[], Frame], timeout: float, patience: float, *, flows: bool
    ) -> Running:
        """See FramedTransport.running."""

        def begin(ssh: list[str]) -> Running | None:
            frame = framed()
            one = Running(frame, Process(self._words(ssh, frame.argv)), timeout, flows=flows)
            try:
                one.begin()
                if frame.out.has_begun or one.status() != FAILED or not _REFUSED.search(frame.err.noise):
                    return one
            except TimeoutError:
                one.close()
                raise self.late(frame, timeout) from None
            except BaseException:
                one.close()
                raise
            one.close()
            return None

        return self._sessions.open(begin, patience)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """See Transport.attach."""
        if not terminal:
            framed = partial(Attached, self.where, self.shell, argv)
            return self.completed(framed, NO_LIMIT, COMMAND_TIMEOUT).returncode

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
        to = structs.replace(self._to, sharing=None)
        login = self._resources.enter_context(Login(to, None))
        other = login.transport()
        self._resources.callback(other.close)
        return other._ssh

    def unfinished(self, one: Running, status: int) -> RemoteError:
        """See FramedTransport.unfinished."""
        return super().unfinished(one, status) if is_shared(self._ssh, self._alias) else self._broken()

    def late(self, frame: Frame, timeout: float) -> RemoteError:
        """See FramedTransport.late."""
        if self._master and self._master.is_over():
            return self._broken()
        return super().late(frame, timeout)

    def _broken(self) -> ConnectionBroke:
        why = self._master.last_message() if self._master else ""
        return ConnectionBroke(f"the connection to {self.where} broke{why}", "Try again.")


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
        from slurmgen.remote.ssh.paramiko import check_host_keys

        known: tuple[Destination, ...] = ()
        with contextlib.suppress(ConnectionFailed):
            known = check_host_keys(to)
        if not known or to in known:
            raise
        names = " and ".join(host.alias for host in known)
        raise HostKeyError(
            f"{error.fact}; it is not that of {names}, which known_hosts has", error.hint
        ) from None


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
    # An unknown host is refused, as everywhere in slurmgen: only the user adds to known_hosts.
    "StrictHostKeyChecking": "yes",
}
# The messages of a jump host are kept for the error, such as an unknown host key.
_FOR_JUMP_HOST = {"LogLevel": "INFO"}
# For a shared connection. If it has ended, a failing ProxyCommand keeps ssh from opening another one.
_SHARED = {"BatchMode": "yes", "ControlMaster": "no", "LogLevel": "ERROR", "ProxyCommand": "false"}
_ALIVE_TIMEOUT = 10.0


def for_login(to: Destination, prompt: Prompt | None, path: str | None = None, **options: str) -> list[str]:
    """The words of an `ssh` that logs in; `path` is the socket that it makes."""
    batch = "no" if prompt else "yes"
    return ssh(to, path, BatchMode=batch, LogLevel="VERBOSE", **_proxy(to), **options)


def _proxy(to: Destination) -> dict[str, str]:
    """ssh's options for a host with jump hosts: a ProxyCommand with slurmgen's options for each ssh in it.

    The ssh that ProxyJump starts would have none of them, so that ssh_config could accept any host key there.
    """
    if to.jump:
        words = [*ssh(to.jump, **_FOR_JUMP_HOST, **_proxy(to.jump)), "-W", f"[{to.host}]:{to.port}"]
        command = command_line([*words, "--", to.jump.alias])
        return {"ProxyCommand": command.replace("%", "%%"), "ProxyUseFdpass": "no"}
    return {"ProxyCommand": to.proxy_command.replace("%", "%%")} if to.proxy_command else {}


def ssh(to: Destination, path: str | None = None, **options: str) -> list[str]:
    """The words of `ssh`, up to the host; `path` is the socket of a shared connection.

    Raises:
        ConfigError: ssh is not installed.
    """
    program = shutil.which("ssh")
    if program is None:
        raise ConfigError("there is no ssh on this machine", "Install OpenSSH, or use --ssh-client paramiko.")
    file = ["-F", str(to.config_file)] if to.config_file else []
    words = [f"-o{name}={value}" for name, value in (_ALWAYS | options).items()]
    shared = ["-S", path.replace("%", "%%")] if path else []
    return [program, *file, *to.spec.options, *shared, *words]


def for_shared(to: Destination, path: str) -> list[str]:
    """The words of an `ssh` over a shared connection, whose socket is `path`."""
    return ssh(to, path, **_SHARED)


def is_shared(words: Sequence[str], alias: str) -> bool:
    """Whether the shared connection of the ControlPath among the words is open."""
    argv = [*words, "-O", "check", "--", alias]
    try:
        return not subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ALIVE_TIMEOUT,
            check=False,
            start_new_session=True,
        ).returncode
    except subprocess.TimeoutExpired:
        return False
