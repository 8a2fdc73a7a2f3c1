"""Asking a person for a secret, on the terminal and nowhere else."""

import os
from collections.abc import Callable


def asker() -> Callable[[str], str] | None:
    """A function that shows a prompt and reads an answer unseen; None where there is no terminal.

    It uses /dev/tty: standard input and output may be pipes.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    import atexit
    import termios
    from getpass import getpass

    # paramiko asks from a thread of its own, which ^C ends before it shows typing again.
    atexit.register(termios.tcsetattr, terminal, termios.TCSANOW, termios.tcgetattr(terminal))
    return getpass
