"""Prompts for secrets, on the terminal and nowhere else."""

import atexit
import os
import signal
import termios
from contextlib import suppress
from functools import cache
from getpass import getpass
from pathlib import Path
from typing import Protocol

from slurmgen.errors import AuthenticationFailed

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
