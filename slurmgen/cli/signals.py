"""Signals that end a command, for the commands that must clean up what they have started."""

import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def interrupt_when_ended() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as SIGINT does, unless ignored, as with nohup."""
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in _ENDING:  # a closed terminal sends several, which must not interrupt the cleanup
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
