"""Logging in with OpenSSH: the one ssh that may ask a person, and what it said when it failed."""

import contextlib
import os
import re
import select
import subprocess
import threading
import time
from types import TracebackType
from typing import Self

from msgspec import Struct

from slurmgen import errors
from slurmgen.remote.login import Ask
from slurmgen.remote.ssh_config import Destination
from slurmgen.remote.terminal import show_typing_at_exit
from slurmgen.slurm.shell import visible

LOGIN_TIMEOUT = 300.0
"Seconds for a login; a person may have to fetch a code first."
ALONE_TIMEOUT = 60.0
"Seconds for a login with nobody to ask."
_END_TIMEOUT = 5.0
# ssh is deaf to ^C, which is ours: we end it, or go on to find out what became of a job.
_DEAF = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "ssh"]
_READY = b"slurmgen: the connection is up"


class Ours(Struct, frozen=True):
    """The error that words of ssh become; the hint may name the alias."""

    words: str
    "A regular expression."
    kind: type[errors.SlurmgenError]
    fact: str
    hint: str


_TRY = "`ssh {alias}` should work first."
_NETWORK = f"Check the host name and your network (is a VPN needed?); {_TRY}"
ERRORS = (
    Ours(
        "IDENTIFICATION HAS CHANGED",
        errors.HostKeyError,
        "THE HOST KEY OF {alias} OR OF A HOST BEFORE IT HAS CHANGED. "
        "Somebody may be between you and the host; nothing was sent",
        "Ask the site's staff whether they changed it; `ssh {alias}` tells the line of known_hosts.",
    ),
    Ours(
        "REVOKED HOST KEY|is marked as revoked",
        errors.HostKeyError,
        "the host key of {alias} is revoked",
        "Ask the site's staff.",
    ),
    Ours(
        "Host key verification failed|host key is known",
        errors.HostKeyError,
        "the host key of {alias} or of a host before it is not known",
        "Run `ssh {alias}` once, compare the fingerprint with the one your site publishes, and say yes.",
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
    """An ssh that logs in; it ends with the block, and what it shares too unless ssh_config keeps that."""

    def __init__(self, words: list[str], to: Destination, ask: Ask | None, *, stays: bool) -> None:
        self._to = to
        self._ask = ask
        self._is_alone = ask is None
        # The far command ends when nobody holds its standard input: nothing outlives a killed slurmgen.
        self._stays = stays
        self._command = f"echo '{_READY.decode()}'" + ("; exec cat" if stays else "")
        self._words = words
        self._said: list[str] = []

    def __enter__(self) -> Self:
        if self._ask:
            with contextlib.suppress(OSError):  # no terminal to leave in order
                show_typing_at_exit()
        self._process = subprocess.Popen(
            [*_DEAF, *self._words, "--", self._to.alias, self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if self._stays or error:
            process.terminate()  # then it gives the terminal back its echo, and removes its socket
        try:
            process.wait(1.0 if error else _END_TIMEOUT)  # at a question it may not heed that
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._listener.join(_END_TIMEOUT)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                assert pipe  # noqa: S101 (all three are pipes)
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
        return f": {self._said[-1]}" if self._said else ""

    def _await(self, seconds: float) -> bool:
        """Whether it comes up; it has ended if not."""
        assert self._process.stdout  # noqa: S101 (it is a pipe)
        out, heard, deadline = self._process.stdout.fileno(), b"", time.monotonic() + seconds
        while select.select([out], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not (chunk := os.read(out, 4096)):
                return False
            heard += chunk
            if _READY in heard:
                return True
        raise errors.ConnectionFailed(
            f"{self._to.alias} let nobody in within {seconds:g} seconds",
            _NETWORK.format(alias=self._to.alias),
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
    names = {"alias": to.alias, "host": to.host, "port": to.port, "user": to.user}
    ours = next(one for one in ERRORS if re.search(one.words, said))
    lines = [line for line in said.splitlines() if line.strip()]
    why = f": {lines[-1]}" if lines else ""
    hint = ours.hint.format(**names)
    if is_alone and ours.kind is errors.AuthenticationFailed:
        hint += " A password or code would be asked for in a terminal, but there is no terminal here."
    return ours.kind(ours.fact.format(**names) + why, hint)
