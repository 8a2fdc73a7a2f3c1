"""Asking a person for a secret, on the terminal and nowhere else."""

import os
from contextlib import suppress
from functools import cache
from typing import Protocol

from slurmgen.errors import AuthenticationFailed

_TERMINAL = "/dev/tty"


class Ask(Protocol):
    """A person at a terminal."""

    def __call__(self, prompt: str, /) -> str:
        """Show a prompt and read an answer without showing it."""

    def tell(self, text: str, /) -> None:
        """Show a text that wants no answer."""


class Terminal:
    """The person at /dev/tty: standard input and output may be pipes."""

    def __call__(self, prompt: str) -> str:
        """Show a prompt and read an answer unseen.

        Raises:
            AuthenticationFailed: there was none, but ^D.
        """
        from getpass import getpass

        show_typing_at_exit()
        try:
            return getpass(prompt)
        except EOFError:
            raise AuthenticationFailed(f"nothing was answered to `{prompt.strip()}`", "Try again.") from None

    def tell(self, text: str) -> None:
        """Show a text that wants no answer."""
        terminal = _opened()
        os.write(terminal, f"{text}\n".encode())
        os.close(terminal)


def asker() -> Terminal | None:
    """Who can be asked; None where there is no terminal."""
    try:
        os.close(_opened())
    except OSError:
        return None
    return Terminal()


def _opened() -> int:
    return os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)


@cache
def show_typing_at_exit() -> None:
    """Leave the terminal as it is now: what asks is a thread of paramiko's or an ssh, which ^C cuts short."""
    import atexit
    import termios

    terminal = _opened()
    atexit.register(_restore, terminal, termios.tcgetattr(terminal))


def _restore(terminal: int, settings: list[object]) -> None:
    import signal
    import termios

    # Sent to the background meanwhile, we would be stopped, and it is somebody else's terminal now.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError, termios.error):
        if os.tcgetpgrp(terminal) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSANOW, settings)  # type: ignore[arg-type]
    os.close(terminal)
