"""The ssh process that logs in and may prompt the user, and the errors that it reports."""

import contextlib
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from slurmgen import errors
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.prompt import Prompt, restore_terminal_at_exit
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
    names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user, "ssh": to.ssh}
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
