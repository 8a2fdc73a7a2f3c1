"""Ask the user for a password, a passphrase or a code."""

import atexit
import contextlib
import os
import selectors
import signal
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slurmgen.errors import AuthenticationFailed
from slurmgen.remote.local import raw, size

if TYPE_CHECKING:
    import paramiko  # 0.1 s to import, and not needed with OpenSSH

ATTEMPTS = 3
"Number of attempts at a prompt, as in OpenSSH."
_TERMINAL = "/dev/tty"


class NotAnswered(AuthenticationFailed):
    """The user answered no prompt."""


class Prompt(Protocol):
    """Shows prompts to the user, and reads the answers."""

    def __call__(self, prompt: str, /) -> str:
        """Show a prompt and read an answer without echo."""

    def show(self, text: str, /) -> None:
        """Show a text that needs no answer."""


class Terminal:
    """Prompts on /dev/tty: standard input and output may be pipes."""

    def __call__(self, prompt: str) -> str:
        """Show a prompt and read an answer without echo.

        Raises:
            AuthenticationFailed: the user pressed ^D.
        """
        restore_terminal_at_exit()
        try:
            return getpass(prompt)
        except EOFError:
            raise NotAnswered(f"there was no answer to `{prompt.strip()}`", "Try again.") from None

    def confirms(self, question: str) -> bool:
        """Whether the user answers yes."""
        with Path(_TERMINAL).open("r+b", buffering=0) as terminal:
            terminal.write(question.encode(errors="backslashreplace"))
            return terminal.readline(100).strip().lower() in {b"y", b"yes"}

    def show(self, text: str) -> None:
        """Show a text that needs no answer."""
        terminal = _open_terminal()
        os.write(terminal, f"{text}\n".encode())
        os.close(terminal)


def terminal_prompt() -> Terminal | None:
    """Prompts on the terminal; None without one."""
    try:
        os.close(_open_terminal())
    except OSError:
        return None
    return Terminal()


def is_in_foreground() -> bool:
    """Whether a prompt can be answered: a process in the background would be stopped."""
    with suppress(OSError):
        terminal = _open_terminal()
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def _open_terminal() -> int:
    return os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)


@cache
def restore_terminal_at_exit() -> None:
    """Restore the terminal at exit: ^C may end a prompt of paramiko's thread or of ssh while echo is off."""
    terminal = _open_terminal()
    atexit.register(_restore, terminal, termios.tcgetattr(terminal))


def _restore(terminal: int, settings: list[object]) -> None:
    # A process in the background would be stopped here; the terminal then belongs to another one.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError, termios.error):
        if os.tcgetpgrp(terminal) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSANOW, settings)  # type: ignore[arg-type]
    os.close(terminal)


_PART = 65536
_TURN = 0.05
"Seconds until it is tried again to send what the other side did not take."


def attach_terminal(channel: "paramiko.Channel", execute: Callable[[], None]) -> int:
    """Run a command with the terminal of this process; returns its exit status, -1 if it has none."""
    columns, lines = size()
    channel.get_pty(os.environ.get("TERM", "vt100"), columns, lines)
    execute()
    with raw(lambda: _resize(channel)):
        return _join(channel)


def _resize(channel: "paramiko.Channel") -> None:
    from paramiko import SSHException

    with contextlib.suppress(OSError, EOFError, SSHException):
        channel.resize_pty(*size())


def _join(channel: "paramiko.Channel") -> int:
    """Copy what arrives on either side until the command ends.

    Input that the remote program does not take yet is kept, so that its output is read meanwhile.
    """
    waiting = b""
    # Unlike epoll, select accepts a file.
    with selectors.SelectSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        with contextlib.suppress(OSError, ValueError):  # stdin is closed
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(_TURN if waiting else None):
                if key.fileobj is channel:
                    if not _show(channel):
                        return channel.recv_exit_status()
                    continue
                selector.unregister(key.fd)
                waiting = os.read(key.fd, _PART)
                if not waiting:
                    channel.shutdown_write()
            if waiting and not (waiting := _send(channel, waiting)):
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)


def _send(channel: "paramiko.Channel", part: bytes) -> bytes:
    """Send what the other side takes now; returns the rest."""
    while part and channel.send_ready():
        part = part[channel.send(part) :]
    return part


def _show(channel: "paramiko.Channel") -> bool:
    """Write what has arrived; returns whether more may come."""
    channel.setblocking(False)
    ended = 0
    for receive, stream in ((channel.recv, sys.stdout), (channel.recv_stderr, sys.stderr)):
        with contextlib.suppress(TimeoutError):
            part = receive(_PART)
            ended += not part
            stream.buffer.write(part)
            stream.buffer.flush()
    return ended < 2
