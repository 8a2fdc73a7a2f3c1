"""The terminal of this process: whether there is one, and its keys for a remote command."""

import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator


def is_terminal() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def size() -> os.terminal_size:
    """Columns and lines of the terminal, or those of an old one."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdin.fileno())
    return os.terminal_size((80, 24))


@contextlib.contextmanager
def ignored_interrupt() -> Iterator[None]:
    """Leave ^C to a program that shares the terminal."""
    # Not SIG_IGN, which the program would inherit.
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def raw(on_resize: Callable[[], None]) -> Iterator[None]:
    """Pass each key on as it is, ^C included, and report when the size of the terminal changes."""
    keys = sys.stdin.fileno()
    modes = termios.tcgetattr(keys)
    before = signal.signal(signal.SIGWINCH, lambda _signal, _frame: on_resize())
    try:
        tty.setraw(keys, termios.TCSADRAIN)  # keeps what has been typed already
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, modes)
        signal.signal(signal.SIGWINCH, before)
