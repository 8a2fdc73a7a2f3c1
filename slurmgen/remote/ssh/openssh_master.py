"""Logging in with OpenSSH: the one ssh that may ask a person, and what it said when it failed."""

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
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.prompt import Ask, show_typing_at_exit
from slurmgen.text import visible

LOGIN_TIMEOUT = 300.0
"Seconds for a login; a person may have to fetch a code first."
ALONE_TIMEOUT = 60.0
"Seconds for a login with nobody to ask."
_END_TIMEOUT = 5.0
# ssh is deaf to ^C, which is ours: we end it, or go on to find out what became of a job.
_DEAF = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "ssh"]
# Ends an ssh whose slurmgen was killed: a pipe that ends without a line says so.
_WATCHED = [
    *("/bin/sh", "-c"),
    "trap '' INT; exec 4<&0 </dev/null; { read -r over <&4 || kill \"$$\"; } >/dev/null 2>&1 & "
    'exec "$@" 4<&-',
    "ssh",
]
_LOOK = 0.002, 0.1
"Seconds between two looks for the socket, which ssh makes when it is logged in; longer once it takes long."

_SUMMARY = re.compile(r"Transferred: |Bytes per second: |Authenticated to ")
"What ssh says at the end of any connection, or at its beginning."


class Ours(Struct, frozen=True):
    """The error that words of ssh become; the hint may name the alias."""

    words: str
    "A regular expression."
    kind: type[errors.SlurmgenError]
    fact: str
    hint: str


_TRY = "`{ssh}` should work first."
_NETWORK = f"Check the host name and your network (is a VPN needed?); {_TRY}"
ERRORS = (
    Ours(
        "IDENTIFICATION HAS CHANGED",
        errors.HostKeyError,
        "THE HOST KEY OF {alias} OR OF A HOST BEFORE IT HAS CHANGED. "
        "Somebody may be between you and the host; nothing was sent",
        "Ask the site's staff whether they changed it; `{ssh}` tells the line of known_hosts.",
    ),
    Ours(
        "REVOKED HOST KEY|is marked as revoked|revoked by file",
        errors.HostKeyError,
        "the host key of {alias} is revoked",
        "Ask the site's staff.",
    ),
    Ours(
        "Host key verification failed|host key is known",
        errors.HostKeyError,
        "the host key of {alias} or of a host before it is not known",
        "Run `{ssh}` once, compare the fingerprint with the one your site publishes, and say yes.",
    ),
    Ours(
        "[Bb]ad configuration option|bad configuration options|Can't open user config|jumphost loop",
        errors.ConfigError,
        "cannot read ssh_config",
        "Mend it, or give another with --ssh-config.",
    ),
    Ours(
        "Permission denied|Too many authentication failures|No more authentication methods",
        errors.AuthenticationFailed,
        "{alias} did not let {user} in",
        f"Check user, password and key; {_TRY}",
    ),
    Ours(
        "too long for Unix domain socket|cannot bind to path",
        errors.ConfigError,
        "the ControlPath of {alias} cannot be used",
        "Name a shorter one in ssh_config, in a folder that is there: ControlPath ~/.ssh/%C",
    ),
    Ours("timed out|Timeout", errors.ConnectionFailed, "{alias} did not answer in time", _NETWORK),
    Ours("", errors.ConnectionFailed, "cannot connect to {alias} at {host} port {port}", _NETWORK),
)
"What ssh says when it fails; the first that fits counts."


class Master:
    """An ssh that logs in; it ends with the block.

    With a `socket` it opens no session, and shares its connection there for as long as it runs. Without
    one it leaves behind what ssh_config says.
    """

    def __init__(self, words: list[str], to: Destination, ask: Ask | None, socket: Path | None) -> None:
        self._to = to
        self._ask = ask
        self._is_alone = ask is None
        self._socket = socket
        starter = [*_WATCHED, *words, "-N"] if socket else [*_DEAF, *words]
        self._argv = [*starter, "--", to.alias, *([] if socket else ["true"])]
        self._said: list[str] = []

    def __enter__(self) -> Self:
        if self._ask:
            with contextlib.suppress(OSError):  # no terminal to leave in order
                show_typing_at_exit()
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if self._socket or error:
            process.terminate()  # then it gives the terminal back its echo, and removes its socket
            with contextlib.suppress(OSError):  # the watcher is gone too
                assert process.stdin  # noqa: S101 (it is a pipe)
                os.write(process.stdin.fileno(), b"over\n")
        try:
            process.wait(1.0 if error else _END_TIMEOUT)  # at a question it may not heed that
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._listener.join(_END_TIMEOUT)
        for pipe in (process.stdin, process.stderr):
            with contextlib.suppress(OSError):
                assert pipe  # noqa: S101 (both are pipes)
                pipe.close()

    def log_in(self) -> str:
        """Wait until the connection is up; returns what ssh said meanwhile.

        Raises:
            ConnectionFailed, HostKeyError, AuthenticationFailed, ConfigError: as they say.
        """
        is_up = self._await(ALONE_TIMEOUT if self._is_alone else LOGIN_TIMEOUT)
        self._ask = None
        if not is_up:
            self._listener.join(_END_TIMEOUT)
            raise failure(self._to, "\n".join(self._said), is_alone=self._is_alone)
        return "\n".join(self._said)

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def last_words(self) -> str:
        """What it said when it ended, to put behind a fact."""
        self._listener.join(1.0)
        words = [line for line in self._said if line and not _SUMMARY.match(line)]
        return f": {words[-1]}" if words else ""

    def _await(self, seconds: float) -> bool:
        """Whether we are in; it has ended if not."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            if self._socket and self._socket.exists():
                return True
            if (status := self._process.poll()) is not None:
                return self._socket is None and status == 0
            time.sleep(min(max(_LOOK[0], passed / 100), _LOOK[1]))
        raise errors.ConnectionFailed(
            f"{self._to.alias} let nobody in within {seconds:g} seconds",
            _NETWORK.format(ssh=self._to.ssh),
        )

    def _listen(self) -> None:
        """Keep what ssh says, and show what may be for a person, such as `approve it on your phone`."""
        assert self._process.stderr  # noqa: S101 (it is a pipe)
        for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._said.append(text)
            if self._ask and text and not text.startswith("Authenticated to "):
                self._ask.tell(visible(text))


def failure(to: Destination, said: str, *, is_alone: bool) -> errors.SlurmgenError:
    """The error for what ssh said when it failed."""
    names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user, "ssh": to.ssh}
    ours = next(one for one in ERRORS if re.search(one.words, said))
    # Of a host behind others ssh says at last only that somebody hung up.
    lines = [line for line in said.splitlines() if line.strip() and "UNKNOWN port" not in line]
    why = f": {lines[-1]}" if lines else ""
    hint = ours.hint.format(**names)
    if is_alone and ours.kind is errors.AuthenticationFailed:
        hint += " A password or code would be asked for in a terminal, but there is no terminal here."
    return ours.kind(ours.fact.format(**names) + why, hint)
